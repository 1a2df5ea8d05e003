"""The cost of a POST with one step and with 100 steps, compared with bare endpoints for the same JSON.

The bare bulk endpoint inserts as many rows as Playhead: the entries, a row for each step, and the session.
Processor time is that of the servers. It can be compared even while other programs use the machine.
"""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from bench.machinery import (
    Client,
    action,
    alternate,
    home,
    playhead,
    processor_time,
    report,
    result,
    server,
)

STEPS = 100
ROWS = 2 * STEPS + STEPS + 1


def entries(first: int, steps: int) -> dict[str, Any]:
    """A body of POST …/entries with an output and its results for each step."""
    drafts: list[dict[str, Any]] = []
    for number in range(first, first + steps):
        drafts.append({"kind": "model_output", **action(number)})
        drafts.append({"kind": "tool_results", "results": [result(number)]})
    return {"entries": drafts}


class Cost(NamedTuple):
    """Of one POST, in milliseconds."""

    clock: float
    processor: float

    def __str__(self) -> str:
        return f"{self.clock:.2f} ms, of processor time {self.processor:.2f} ms"


def processes_of(folder: Path) -> list[int]:
    """The ids of the server's processes: they have the data folder in their environment."""
    children = psutil.Process().children(recursive=True)
    return [child.pid for child in children if str(folder) in child.environ().values()]


def main(rounds: int = 300) -> None:
    with (
        home() as playhead_home,
        home() as bare_home,
        playhead(playhead_home) as port,
        server("bench.bare:application", {"BARE_HOME": str(bare_home)}, "/setup") as bare_port,
    ):
        client, bare = Client(port), Client(bare_port)
        settings = {"settings": {"compress_automatically": False}}
        path = f"/api/v1/sessions/{client.json('POST', '/api/v1/sessions', settings)['id']}/entries"
        number = iter(range(1 << 30))

        servers = [processes_of(folder) for folder in (playhead_home, bare_home)]

        def pair(steps: int, floor: str, rounds: int) -> list[Cost]:
            """Costs of a POST with this many steps, and of the bare endpoint at this path."""
            jobs = (
                lambda: client.send("POST", path, entries(next(number) * steps, steps)),
                lambda: bare.send("POST", floor, entries(next(number) * steps, steps)),
            )
            alternate(*jobs, rounds=20)
            before = [processor_time(processes) for processes in servers]
            times = alternate(*jobs, rounds=rounds)
            used = [processor_time(processes) - then for processes, then in zip(servers, before, strict=True)]
            return [Cost(clock, spent / rounds) for clock, spent in zip(times, used, strict=True)]

        step, insert = pair(1, "/insert/1", rounds * 3)
        batch, bulk = pair(STEPS, f"/bulk/{ROWS}", rounds)
    share = f"{bulk.clock / batch.clock:.2f}** (of processor time {bulk.processor / batch.processor:.2f})"
    ratio = f"{step.clock / insert.clock:.2f}** (of processor time {step.processor / insert.processor:.2f})"
    report(
        "Appending by the POST",
        [
            ("action and result of a step in one POST", str(step), ""),
            ("bare endpoint, 1 insert of the same JSON", str(insert), ""),
            ("**ratio**", f"**{ratio}", "2"),
            (f"{STEPS} steps in one POST", f"{batch}, {ROWS / batch.clock * 1000:,.0f} rows a second", ""),
            (f"bare endpoint, {ROWS} inserts", f"{bulk}, {ROWS / bulk.clock * 1000:,.0f} rows a second", ""),
            ("**share of its rows a second**", f"**{share}", "0.5"),
        ],
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
