"""Processor time and disk of the origins of a step in sessions of 100, 10,000 and 100,000 steps.

The results are lines of this repository's own code, and each action names a file and an identifier of an
earlier result. ``python -m bench.origins [sqlite|postgres] [STEPS…]``.
"""

import os
import random
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.machinery import ROOT, home, report
from tests.environment import start_postgres, stop_postgres

LENGTHS = (100, 10_000, 100_000)
ROUNDS = 60
CHARACTERS = 1_500
"""Of each result."""
_TABLES = ("name", "stepnames")
_LOG = ("entry", "episode")


def main(database: str = "sqlite", *lengths: str) -> None:
    """Measures each length in a process and a database of its own."""
    for steps in [int(length) for length in lengths] or LENGTHS:
        with home() as folder:
            url = start_postgres(folder / "postgres") if database == "postgres" else ""
            environment = {
                **os.environ, "PLAYHEAD_HOME": str(folder), "PLAYHEAD_SYNCHRONOUS": "OFF", "DATABASE_URL": url
            }  # fmt: skip
            inside = f"from bench.origins import measure; measure({steps})"
            try:
                for code in (["migrate", "--verbosity", "0"], ["shell", "--no-imports", "-c", inside]):
                    subprocess.run(
                        [sys.executable, "manage.py", *code], cwd=ROOT, env=environment, check=True
                    )
            finally:
                if url:
                    stop_postgres(folder / "postgres")


def measure(length: int) -> None:
    """Fills a session, makes its index and reads the origins of some steps. Runs inside Django."""
    from historyapp.models import NameRun, Session
    from historyapp.models.history import History
    from historyapp.services.names.index import catch_up
    from historyapp.services.names.origins import origins_of

    session, appending = fill(length)
    begin = time.process_time()
    while not catch_up(session.lineage(), limit=None):
        pass
    took = time.process_time() - begin
    steps, times = random.Random(7), []
    for _ in range(ROUNDS):
        history = History(Session.objects.get(pk=session.pk))
        number = steps.randint(max(1, length - length // 2), length)
        start = time.process_time()
        origins_of(history, number)
        times.append((time.process_time() - start) * 1000)
    times.sort()
    spread = f"{statistics.median(times):.0f} ms, p95 {times[int(ROUNDS * 0.95)]:.0f} ms"
    index, log = _bytes(_TABLES), _bytes(_LOG)
    rows = [
        (f"{length:,} steps: origins of a step", spread, "50 ms"),
        (f"{length:,} steps: index made in", f"{took:.1f} s ({took / appending:.0%} of appending)", ""),
        (
            f"{length:,} steps: bytes a step",
            f"log {log / length:,.0f}, index {index / length:,.0f} ({index / log:.0%})",
            "30 %",
        ),
        (f"{length:,} steps: runs", str(NameRun.objects.count()), ""),
    ]
    report("Origins", rows)


def _bytes(tables: tuple[str, ...]) -> int:
    """The bytes of tables and their indexes on disk. ``tables``: the beginnings of their names."""
    from historyapp.models.sql import fetch_all
    from historyapp.models.vendor import on_sqlite

    if on_sqlite():
        rows = fetch_all("SELECT name, pgsize FROM dbstat", [])
    else:
        rows = fetch_all("SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r'", [])
    total = 0
    for name, size in rows:
        plain = name.removeprefix("sqlite_autoindex_").removeprefix("historyapp_")
        total += size if plain.startswith(tables) else 0
    return total


def fill(length: int) -> tuple[Any, float]:
    """A session, and the processor time of its appends in seconds."""
    from historyapp.core.entries import EntryDraft, ModelOutput, ToolResult, ToolResults, UseTool
    from historyapp.core.identifiers import identifiers
    from historyapp.services.append import append
    from historyapp.services.bootstrap import default_project
    from historyapp.services.sessions import create_session

    files = sorted(Path(ROOT / "historyapp").rglob("*.py"))
    source = "".join(f"{file.relative_to(ROOT)}\n{file.read_text()}" for file in files)
    project = default_project()
    session = create_session(project, names={"title": f"{length} steps"})
    begin, last = time.process_time(), "historyapp/core"
    for start in range(0, length, 500):
        drafts = []
        for number in range(start, min(length, start + 500)):
            arguments = {"command": f"grep -n {last} historyapp/file_{number}.py"}
            drafts.append(EntryDraft(ModelOutput(use_tool=UseTool(name="shell", arguments=arguments))))
            place = number * 7919 % (len(source) - CHARACTERS)
            # Every second line occurs only in this step, as most names of real runs do.
            text = re.sub(r"_(\w+)\(", rf"_{number}_\1(", source[place : place + CHARACTERS])
            drafts.append(EntryDraft(ToolResults(results=(ToolResult(status="success", outputs=text),))))
            last = next(iter(identifiers(text)), last)
        append(project, session.pk, drafts)
    session.refresh_from_db()
    return session, time.process_time() - begin


if __name__ == "__main__":
    main(*sys.argv[1:])
