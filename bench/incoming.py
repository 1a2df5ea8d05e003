"""Records many steps while the worker of ``playhead up`` compresses them, and counts stalls and failures.

Sessions are compressed automatically by extracts, so runs follow each other, and each wakes workers through
the queue.
"""

import re
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from bench.machinery import KEY, Client, action, home, report, result
from tests.installation import Installation, ended, installation

STEPS_A_SESSION = 1000
_DETAILED = 7
"""The newest four steps of a session, and up to three more that are not a full batch yet."""
_QUEUED = "SELECT COUNT(*) FROM historyapp_queuedmessage"
_ACTIVE = "SELECT 1 FROM historyapp_compressionrun WHERE state IN ('queued', 'running')"
_DUE = "SELECT 1 FROM historyapp_session WHERE compression_due"


@dataclass
class Incoming:
    """The outcome."""

    steps: int
    times: list[float] = field(default_factory=list)
    """Milliseconds of each action with its result."""
    runs: int = 0
    unfinished: int = 0
    """Runs that did not succeed."""
    uncompressed: int = 0
    """Steps without a summary, except those that stay detailed."""
    messages: int = 0
    """Messages left in the queue."""
    log: str = ""
    files: set[str] = field(default_factory=set)


def main(steps: int = 20_000) -> None:
    with home() as folder:
        incoming = append_meanwhile(folder, steps)
    files = ", ".join(sorted(incoming.files))
    rows = [
        ("action + result, median", f"{statistics.median(incoming.times):.1f} ms", ""),
        (
            "the same, 99th percentile and longest",
            f"{_at(incoming.times, 0.99):.0f} ms, {max(incoming.times):.0f} ms",
            "",
        ),
        ("runs, those that did not succeed", f"{incoming.runs:,}, {incoming.unfinished}", "0"),
        ("steps that were left uncompressed", str(incoming.uncompressed), "0"),
        ("messages left in the queue", str(incoming.messages), "0"),
        ("lines in the log", str(len(incoming.log.splitlines())), "0"),
        ("files in the data folder", files, ""),
    ]
    report(f"{steps:,} steps while a worker compresses them", rows)


def append_meanwhile(folder: Path, steps: int) -> Incoming:
    """Records steps over HTTP, waits until the worker has finished, and stops the server."""
    with installation(folder / "home", migrated=True, PLAYHEAD_API_KEY=KEY) as installed:
        server = installed.start("manage.py", "up", "--port", "0", "--no-demo")
        client = Client(_port(server.stdout))
        incoming = Incoming(steps)
        for first in range(0, steps, STEPS_A_SESSION):
            session = client.json("POST", "/api/v1/sessions", {})["id"]
            for number in range(first, min(first + STEPS_A_SESSION, steps)):
                begin = time.perf_counter()
                client.send("POST", f"/api/v1/sessions/{session}/actions", action(number))
                client.send("POST", f"/api/v1/sessions/{session}/results", result(number))
                incoming.times.append((time.perf_counter() - begin) * 1000)
        _until_idle(installed)
        _account(installed, incoming)
        incoming.log = ended(server)
        incoming.files = {str(path.relative_to(installed.home)) for path in installed.home.rglob("*")}
        return incoming


def _port(printed: IO[str] | None) -> int:
    assert printed is not None
    for line in printed:
        if match := re.search(r"ready at http://127\.0\.0\.1:(\d+)", line):
            return int(match[1])
    raise SystemExit("the server did not start")


def _until_idle(installed: Installation, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    # In this order: what is due becomes an active run between two of these queries.
    while installed.rows(_QUEUED) != [(0,)] or installed.rows(_DUE) or installed.rows(_ACTIVE):
        if time.monotonic() > end:
            break  # the report shows what is left
        time.sleep(0.2)


def _account(installed: Installation, incoming: Incoming) -> None:
    [(incoming.runs,)] = installed.rows("SELECT COUNT(*) FROM historyapp_compressionrun")
    [(incoming.unfinished,)] = installed.rows(
        "SELECT COUNT(*) FROM historyapp_compressionrun WHERE state <> 'succeeded'"
    )
    statement = f"SELECT steps - compressed_to - {_DETAILED} FROM historyapp_session"
    behind = sum(max(0, steps) for (steps,) in installed.rows(statement))
    [(handled,)] = installed.rows("SELECT SUM(compressed_to) FROM historyapp_session")
    [(summarised,)] = installed.rows(
        "SELECT COUNT(DISTINCT session_id || ' ' || first_step) FROM historyapp_summary"
    )
    [(incoming.messages,)] = installed.rows(_QUEUED)
    incoming.uncompressed = behind + handled - summarised


def _at(times: list[float], share: float) -> float:
    return sorted(times)[int(share * len(times))]


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
