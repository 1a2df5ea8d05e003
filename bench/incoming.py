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
        seen = append_meanwhile(folder, steps)
    files = ", ".join(sorted(seen.files))
    rows = [
        ("action + result, median", f"{statistics.median(seen.times):.1f} ms", ""),
        (
            "the same, 99th percentile and longest",
            f"{_at(seen.times, 0.99):.0f} ms, {max(seen.times):.0f} ms",
            "",
        ),
        ("runs, those that did not succeed", f"{seen.runs:,}, {seen.unfinished}", "0"),
        ("steps that were left uncompressed", str(seen.uncompressed), "0"),
        ("messages left in the queue", str(seen.messages), "0"),
        ("lines in the log", str(len(seen.log.splitlines())), "0"),
        ("files in the data folder", files, ""),
    ]
    report(f"{steps:,} steps while a worker compresses them", rows)


def append_meanwhile(folder: Path, steps: int) -> Incoming:
    """Records steps over HTTP, waits until the worker has finished, and stops the server."""
    with installation(folder / "home", migrated=True, PLAYHEAD_API_KEY=KEY) as ours:
        server = ours.start("manage.py", "up", "--port", "0", "--no-demo")
        client = Client(_port(server.stdout))
        seen = Incoming(steps)
        for first in range(0, steps, STEPS_A_SESSION):
            session = client.json("POST", "/api/v1/sessions", {})["id"]
            for number in range(first, min(first + STEPS_A_SESSION, steps)):
                begin = time.perf_counter()
                client.send("POST", f"/api/v1/sessions/{session}/actions", action(number))
                client.send("POST", f"/api/v1/sessions/{session}/results", result(number))
                seen.times.append((time.perf_counter() - begin) * 1000)
        _until_idle(ours)
        _account(ours, seen)
        seen.log = ended(server)
        seen.files = {str(path.relative_to(ours.home)) for path in ours.home.rglob("*")}
        return seen


def _port(printed: IO[str] | None) -> int:
    assert printed is not None
    for line in printed:
        if found := re.search(r"ready at http://127\.0\.0\.1:(\d+)", line):
            return int(found[1])
    raise SystemExit("the server did not start")


def _until_idle(ours: Installation, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while ours.rows(_ACTIVE) or ours.rows(_DUE) or ours.rows(_QUEUED) != [(0,)]:
        if time.monotonic() > end:
            break  # the report shows what is left
        time.sleep(0.2)


def _account(ours: Installation, seen: Incoming) -> None:
    [(seen.runs,)] = ours.rows("SELECT COUNT(*) FROM historyapp_compressionrun")
    [(seen.unfinished,)] = ours.rows(
        "SELECT COUNT(*) FROM historyapp_compressionrun WHERE state <> 'succeeded'"
    )
    late = f"SELECT steps - compressed_to - {_DETAILED} FROM historyapp_session"
    behind = sum(max(0, steps) for (steps,) in ours.rows(late))
    [(wanted,)] = ours.rows("SELECT SUM(compressed_to) FROM historyapp_session")
    [(made,)] = ours.rows("SELECT COUNT(DISTINCT session_id || ' ' || first_step) FROM historyapp_summary")
    [(seen.messages,)] = ours.rows(_QUEUED)
    seen.uncompressed = behind + wanted - made


def _at(times: list[float], share: float) -> float:
    return sorted(times)[int(share * len(times))]


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
