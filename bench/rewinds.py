"""Time of reads and appends and bytes on disk after 10, 1,000 and 10,000 live rewinds.

The sessions are equally long: two steps are live for each of the most rewinds.
``python -m bench.rewinds 1000`` measures up to 1,000.
"""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from bench.length import _signed_in
from bench.machinery import ROOT, Client, action, alternate, home, machine, playhead, report, result

COUNTS = (10, 1_000, 10_000)
FILL = """
from bench.fill_rewinds import fill
fill({rewinds}, {steps})
"""


def main(most: int = COUNTS[-1], rounds: int = 30) -> None:
    counts = [count for count in COUNTS if count <= most]
    with home() as folder, playhead(folder) as port:
        sessions, sizes = [], []
        for count in counts:
            before = _bytes(folder)
            sessions.append(_filled(folder, count, most))
            sizes.append(_bytes(folder) - before)
        rows = []
        for name, send in {**_pages(_signed_in(port, folder)), **_api(Client(port))}.items():
            times = alternate(*(partial(send, session, most) for session in sessions), rounds=rounds)
            shown = " → ".join(f"{time:.2f}" for time in times)
            rows.append((f"{name}: {shown} ms", f"**{times[-1] / times[0]:.2f}**", "1.3"))
        shown = " → ".join(f"{size / 1e6:.1f}" for size in sizes)
        rows.append((f"database: {shown} MB", f"**{sizes[-1] / sizes[0]:.2f}**", "linear"))
    report(f"{' → '.join(f'{count:,}' for count in counts)} rewinds ({machine()})", rows)


def _filled(folder: Path, rewinds: int, steps: int) -> str:
    environment = {**os.environ, "PLAYHEAD_HOME": str(folder), "PLAYHEAD_SYNCHRONOUS": "OFF"}
    code = FILL.format(rewinds=rewinds, steps=steps)
    command = [sys.executable, "manage.py", "shell", "--no-imports", "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return str(json.loads(done.stdout.splitlines()[-1]))


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _pages(person: Client) -> dict[str, Any]:
    def page(query: str, session: str, steps: int) -> None:
        person.send("GET", f"/sessions/{session}{query.format(middle=steps)}")

    return {"session page": partial(page, ""), "session page, middle step": partial(page, "?step={middle}")}


def _api(agent: Client) -> dict[str, Any]:
    base = "/api/v1/sessions"
    number = iter(range(1 << 30))

    def append(session: str, steps: int) -> None:
        n = next(number)
        agent.send("POST", f"{base}/{session}/actions", action(n))
        agent.send("POST", f"{base}/{session}/results", result(n))

    def rewind(session: str, steps: int) -> None:
        append(session, steps)
        agent.send("POST", f"{base}/{session}/rewinds", {"episodes": 1})

    def get(path: str, session: str, steps: int) -> None:
        agent.send("GET", f"{base}/{session}{path.format(middle=steps)}")

    def context(session: str, steps: int) -> None:
        agent.send("POST", f"{base}/{session}/contexts", {"policy": "budgeted", "max_tokens": 20_000})

    return {
        "append": append,
        "GET …/messages": partial(get, "/messages"),
        "GET …/episodes/{n}": partial(get, "/episodes/{middle}"),
        "GET …/episodes": partial(get, "/episodes"),
        "GET …/entries": partial(get, "/entries"),
        "GET …/rewinds": partial(get, "/rewinds"),
        "POST …/contexts": context,
        "append and rewind": rewind,
    }


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
