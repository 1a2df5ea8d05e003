"""The cost of an action with its result, here and in another checkout: `… -m bench.append_before ../before`.

Both servers run at the same time and get requests alternately, so a disturbance affects both.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.batches import entries
from bench.machinery import ROOT, Client, action, alternate, report, result

SERVE = """
from bench.machinery import home, playhead
with home() as folder, playhead(folder) as port:
    print(port, flush=True)
    input()
"""


@contextmanager
def serving(checkout: Path, **settings: str) -> Iterator[int]:
    """The port of a server that runs the code of a checkout, as that checkout's own measurements start it."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), **settings}
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE], cwd=checkout, env=environment, text=True, stdin=-1, stdout=-1
    )
    assert process.stdin
    assert process.stdout
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(30)


def appends(client: Client) -> tuple[Callable[[], None], Callable[[], None]]:
    """Two jobs on a new session: an action and its result in two POSTs, and both in one POST of a step."""
    settings = {"settings": {"compress_automatically": False}}
    session = client.json("POST", "/api/v1/sessions", settings)["id"]
    numbers = iter(range(1 << 30))

    def in_two_posts() -> None:
        number = next(numbers)
        client.send("POST", f"/api/v1/sessions/{session}/actions", action(number))
        client.send("POST", f"/api/v1/sessions/{session}/results", result(number))

    def in_one_post() -> None:
        number = next(numbers)
        client.send("POST", f"/api/v1/sessions/{session}/entries", entries(number, 1))

    return in_two_posts, in_one_post


def main(before: str, rounds: int = 600) -> None:
    with serving(Path(before).resolve()) as old, serving(ROOT) as new:
        jobs = [job for port in (old, new) for job in appends(Client(port))]
        alternate(*jobs, rounds=60)
        old_two, old_one, new_two, new_one = alternate(*jobs, rounds=rounds)
    rows = []
    for name, earlier, now in (
        ("action + result, two POSTs", old_two, new_two),
        ("a step, one POST", old_one, new_one),
    ):
        rows += [
            (f"{name}: before, now", f"{earlier:.2f} ms, {now:.2f} ms", ""),
            ("**difference**", f"**{now - earlier:+.2f} ms**", "0.3 ms"),
        ]
    report("Appending before and now, by turns", rows)


if __name__ == "__main__":
    main(*sys.argv[1:2])
