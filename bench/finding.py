"""Time and disk of finding a text in sessions of 100, 10,000 and 100,000 steps.

The results are lines of this repository's own code. Each step has a unique name, so both rare and common
texts can be searched. ``python -m bench.finding [sqlite|postgres] [STEPS…]``.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.machinery import ROOT, home, report
from tests.environment import start_postgres, stop_postgres

LENGTHS = (100, 10_000, 100_000)
ROUNDS = 9
CHARACTERS = 1_500
"""Of each result."""


def main(database: str = "sqlite", *lengths: str) -> None:
    """Measures in a process of its own, with a database of its own."""
    steps = [int(length) for length in lengths] or list(LENGTHS)
    with home() as folder:
        url = start_postgres(folder / "postgres") if database == "postgres" else ""
        environment = {
            **os.environ, "PLAYHEAD_HOME": str(folder), "PLAYHEAD_SYNCHRONOUS": "OFF", "DATABASE_URL": url
        }  # fmt: skip
        try:
            for code in (["migrate", "--verbosity", "0"], ["shell", "--no-imports", "-c", _code(steps)]):
                subprocess.run([sys.executable, "manage.py", *code], cwd=ROOT, env=environment, check=True)
        finally:
            if url:
                stop_postgres(folder / "postgres")


def _code(lengths: list[int]) -> str:
    return f"from bench.finding import measure; measure({lengths})"


def measure(lengths: list[int]) -> None:
    """Fills sessions, makes their blocks and searches them. Runs inside Django."""
    rows = []
    for length in lengths:
        session, appending = _fill(length)
        rows += _one(session, length, appending)
    report("Find in a session", rows)


def _one(session: Any, length: int, appending: float) -> list[tuple[str, str, str]]:
    from historyapp.models import TextBlock
    from historyapp.models.history import History
    from historyapp.models.text_search import TextSearch
    from historyapp.services.text_index import index_text

    def find(text: str) -> Callable[[], Any]:
        return lambda: TextSearch(History(session), text).find(2000)

    rare = f"unique_{length // 2}_name"
    rows = [_row(f"{length:,} steps, without blocks, one hit", find(rare))]
    begin = time.process_time()
    index_text(session.pk)
    took = time.process_time() - begin
    rows.append(
        (f"{length:,} steps: blocks made in", f"{took:.2f} s ({took / appending:.0%} of appending)", "")
    )
    texts = (rare, "nowhere in it at all", f"que_{length // 2}_n", "EpisodeQuerySet", "return", "e", "zqx")
    rows += [_row(f"{length:,} steps, {text!r}", find(text)) for text in texts]
    rows += [_request_row(session, length, text) for text in (rare, "EpisodeQuerySet", "return")]
    sizes = [(len(block.text), len(block.signature)) for block in TextBlock.objects.filter(session=session)]
    text, bits = map(sum, zip(*sizes, strict=True)) if sizes else (0, 0)
    whole = length * (CHARACTERS + 60)
    rows.append(
        (f"{length:,} steps: texts, signatures", f"{text / whole:.2f}, {bits / whole:.2f} of the text", "1.0")
    )
    return rows


def _row(name: str, find: Callable[[], Any]) -> tuple[str, str, str]:
    walls, processor, matches = [], [], None
    for _ in range(ROUNDS):
        begin, spent = time.perf_counter(), time.process_time()
        matches = find()
        walls.append((time.perf_counter() - begin) * 1000)
        processor.append((time.process_time() - spent) * 1000)
    end = "" if matches.more is None else ", stopped early"
    spread = f"{statistics.median(walls):.0f} ms ({min(walls):.0f} to {max(walls):.0f})"
    processor_figure = f"{statistics.median(processor):.0f} ms of the processor"
    return name, f"{spread}, {processor_figure}, {len(matches.hits):,} hits{end}", "300 ms"


def _request_row(session: Any, length: int, text: str) -> tuple[str, str, str]:
    """The request that the page makes: the search and its list of steps as HTML, without a network."""
    from django.test import Client

    from historyapp.services.bootstrap import bootstrap

    client, walls = Client(headers={"HX-Request": "true", "Host": "localhost"}), []
    client.force_login(bootstrap().user)
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        response = client.get(f"/sessions/{session.pk}/find?step={length // 2}&find={text}")
        walls.append((time.perf_counter() - begin) * 1000)
        assert response.status_code == 200, response
    spread = f"{statistics.median(walls):.0f} ms ({min(walls):.0f} to {max(walls):.0f})"
    return f"{length:,} steps, request for {text!r}", f"{spread}, {len(response.content):,} bytes", "300 ms"


def _fill(length: int) -> tuple[Any, float]:
    """A session, and the processor time of its appends in seconds."""
    from historyapp.core.entries import EntryDraft, ModelOutput, ToolResult, ToolResults, UseTool
    from historyapp.services.append import append
    from historyapp.services.bootstrap import default_project
    from historyapp.services.sessions import create_session

    source = "".join(sorted(file.read_text() for file in Path(ROOT / "historyapp").rglob("*.py")))
    project = default_project()
    session = create_session(project, names={"title": f"{length} steps"})
    begin = time.process_time()
    for start in range(0, length, 1000):
        drafts = []
        for number in range(start, min(length, start + 1000)):
            place = number * 7919 % (len(source) - CHARACTERS)
            arguments = {"command": f"grep -n unique_{number}_name"}
            drafts.append(EntryDraft(ModelOutput(use_tool=UseTool(name="shell", arguments=arguments))))
            result = ToolResult(status="success", outputs=source[place : place + CHARACTERS])
            drafts.append(EntryDraft(ToolResults(results=(result,))))
        append(project, session.pk, drafts)
    session.refresh_from_db()
    return session, time.process_time() - begin


if __name__ == "__main__":
    main(*sys.argv[1:])
