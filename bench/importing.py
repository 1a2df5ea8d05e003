"""The speed of importing a large transcript, and its peak memory at two sizes."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.machinery import RESULT, ROOT, THOUGHT, home, report

SMALL, LARGE = 5_000, 100_000
BATCH = 1_000
"""Lines that the bare import inserts in one transaction, as Playhead does."""


def main() -> None:
    rows = []
    peaks: dict[int, list[float]] = {}
    for steps in (SMALL, LARGE):
        with home() as folder:
            file = folder / "session.jsonl"
            write_claude_code(file, steps)
            bare = _bare(folder / "bare.db", file)
            seconds, *peaks[steps] = import_measured(folder, file)
            size = file.stat().st_size >> 20
            bound = "see bench.peer" if steps == LARGE else ""
            rows.append((f"{steps:,} steps, {size} MB", f"{steps / seconds:,.0f} steps/s", bound))
            rows.append(("the lines only parsed and inserted", f"{steps / bare:,.0f} steps/s", ""))
    for place, process in enumerate(("storing", "reading")):
        small, large = (round(peaks[steps][place]) for steps in (SMALL, LARGE))
        what = f"peak memory of the {process} process, {SMALL:,} → {LARGE:,} steps"
        rows.append((what, f"{small} MB → {large} MB", "independent of size"))
    report("Importing Claude Code JSONL into SQLite, the whole command", rows)


def import_measured(folder: Path, file: Path) -> tuple[float, float, float]:
    """Seconds without the start of Python, and peak memory of the storing and the reading process in MB."""
    environment = {**os.environ, "PLAYHEAD_HOME": str(folder / "home")}
    for arguments in (["migrate", "--verbosity", "0"], ["shell", "--no-imports", "-c", PREPARE]):
        subprocess.run([sys.executable, "manage.py", *arguments], cwd=ROOT, env=environment, check=True)
    command = [sys.executable, "-m", "bench.timed_import", str(file)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    seconds, storing, reading = map(float, re.findall(r"[\d.]+", done.stdout.splitlines()[-1]))
    return seconds, storing, reading


def _bare(database: Path, file: Path) -> float:
    """Seconds of the simplest import: each line is parsed and its message inserted as JSON."""
    begin = time.perf_counter()
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE bare (session text, position integer, body text)")
        connection.execute("CREATE UNIQUE INDEX place ON bare (session, position)")
        rows = list[tuple[str, int, str]]()
        with file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                record = json.loads(line)
                rows.append((record["sessionId"], number, json.dumps(record["message"])))
                if len(rows) == BATCH:
                    _insert(connection, rows)
        _insert(connection, rows)
    return time.perf_counter() - begin


def _insert(connection: sqlite3.Connection, rows: list[tuple[str, int, str]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO bare VALUES (?, ?, ?)", rows)
    connection.execute("COMMIT")
    rows.clear()


PREPARE = "from historyapp.services.bootstrap import bootstrap; bootstrap()"


def write_claude_code(path: Path, steps: int) -> None:
    """Writes a session with the workload of the peers: about 3.7 KB a step."""
    common = {"sessionId": "5e550000-0000-7000-8000-000000000000", "cwd": "/repo", "version": "2.0.1"}
    with path.open("w") as file:
        for n in range(steps):
            tool_call: dict[str, Any] = {"type": "tool_use", "id": f"toolu_{n}", "name": "Read"}
            tool_call["input"] = {"file_path": f"/repo/src/module_{n}.py", "query": f"needle {n} " * 22}
            usage = {"input_tokens": 12, "output_tokens": 80, "cache_read_input_tokens": 5000}
            output: dict[str, Any] = {
                "id": f"msg_{n}",
                "role": "assistant",
                "model": "claude-sonnet-4-5",
                "usage": usage,
            }
            output["content"] = [{"type": "text", "text": THOUGHT}, tool_call]
            tool_result = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": f"{n}: {RESULT}"}
            for kind, message, uuid, parent in (
                ("assistant", output, f"a{n}", f"u{n - 1}" if n else None),
                ("user", {"role": "user", "content": [tool_result]}, f"u{n}", f"a{n}"),
            ):
                line: dict[str, Any] = {
                    "type": kind,
                    "uuid": uuid,
                    "parentUuid": parent,
                    "message": message,
                    **common,
                }
                line["timestamp"] = f"2026-01-01T{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}.000Z"
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
