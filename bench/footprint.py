"""The bytes that a step takes in the SQLite file of a server, by table and index."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from bench.machinery import ROOT, Client, action, home, playhead, report, result

STEPS = 4000
SOURCES = ("historyapp/core", "historyapp/services", "docs")


def main(steps: int = STEPS) -> None:
    rows = []
    for name, workload in (
        ("one text repeated", _one_text),
        ("texts of this project", texts_of_project),
    ):
        with home() as folder:
            size, parts = _record(folder, islice(workload(), steps))
        sent = sum(len(json.dumps(part)) for step in islice(workload(), 200) for part in step) / 200
        rows.append((name, f"**{size / steps / 1000:.2f} KB** for {sent / 1000:.2f} KB of JSON", "4.5 KB"))
        rows += [(f"&nbsp; {part}", f"{of / steps:.0f} bytes", "") for part, of in parts[:8]]
    report("Disk: bytes a step in SQLite", rows)


def _one_text() -> Iterator[tuple[Any, Any]]:
    for number in range(1 << 30):
        yield action(number), result(number)


def texts_of_project() -> Iterator[tuple[Any, Any]]:
    """Steps of the same sizes with text from this project's files, which rarely repeats."""
    files = [
        path
        for source in SOURCES
        for path in sorted((ROOT / source).rglob("*.*"))
        if path.suffix in (".py", ".md")
    ]
    text = "\n".join(path.read_text() for path in files)
    starts = cycle(range(0, len(text) - 4000, 2917))
    for number, start in enumerate(starts):
        thought, query, output = (
            text[start : start + 600],
            text[start + 600 : start + 880],
            text[start + 880 : start + 2880],
        )
        call = {"name": "search", "arguments": {"path": f"src/module_{number}.py", "query": query}}
        yield {"thoughts": thought, "use_tool": call}, {"status": "success", "outputs": output}


def _record(folder: Path, steps: Iterator[tuple[Any, Any]]) -> tuple[int, list[tuple[str, int]]]:
    with playhead(folder) as port:
        client = Client(port)
        before = _size(folder)
        session = client.json("POST", "/api/v1/sessions", {"settings": {"compress_automatically": False}})[
            "id"
        ]
        for proposal, outcome in steps:
            client.send("POST", f"/api/v1/sessions/{session}/actions", proposal)
            client.send("POST", f"/api/v1/sessions/{session}/results", outcome)
    return _size(folder) - before, _parts(folder)


def _size(folder: Path) -> int:
    path = folder / "playhead.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


def _parts(folder: Path) -> list[tuple[str, int]]:
    """Bytes of each table and index, the largest first; empty where SQLite was built without dbstat."""
    with closing(sqlite3.connect(folder / "playhead.sqlite3")) as connection:
        try:
            return connection.execute(
                "SELECT name, SUM(pgsize) AS size FROM dbstat GROUP BY name ORDER BY size DESC"
            ).fetchall()
        except sqlite3.OperationalError:
            return []


if __name__ == "__main__":
    main()
