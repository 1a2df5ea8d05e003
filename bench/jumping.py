"""Time on the server of jumps in long sessions, and of the palette in a project of many sessions.

In each session only the last steps are of the searched kind, so a jump from the middle passes all others, and
a jump backwards finds nothing. ``python -m bench.jumping``.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.machinery import ROOT, home, report

LENGTHS, SESSIONS, ROUNDS = (100, 10_000, 100_000), 20_000, 15
SEARCHES = ("", "totals", "nothing like this", "019a2b3c", "77", "go to the next turn")


def main() -> None:
    """Measures in a database of its own."""
    with home() as folder:
        environment = {**os.environ, "PLAYHEAD_HOME": str(folder), "PLAYHEAD_SYNCHRONOUS": "OFF"}
        inside = "from bench.jumping import measure; measure()"
        for command in (["migrate", "--verbosity", "0"], ["shell", "--no-imports", "-c", inside]):
            subprocess.run([sys.executable, "manage.py", *command], cwd=ROOT, env=environment, check=True)


def measure() -> None:
    """Prints the milliseconds of each jump and search. Runs inside Django."""
    from dashboard.jumps import JUMPS, find_jump
    from dashboard.location import Location
    from dashboard.palette import search
    from historyapp.models import Project, Session
    from historyapp.models.history import History

    project = Project.objects.create(name="bench")
    for length in LENGTHS:
        session = _session(project, length)

        def middle(session: Any = session, length: int = length) -> Any:
            return Location(History(Session.objects.get(pk=session.pk)), length // 2)

        jumps = [_row(name, lambda name=name: find_jump(middle(), name)) for name in JUMPS]  # type: ignore[misc]
        report(f"jumps, {length:,} steps", jumps)
    names = {"title": "Repair the totals", "search_text": "repair the totals"}
    Session.objects.bulk_create([Session(project=project, **names) for _ in range(SESSIONS)], batch_size=1000)
    here = middle()
    searches = [_row(repr(text), partial(search, project, text, here, is_staff=True)) for text in SEARCHES]
    report(f"palette, {SESSIONS:,} sessions", searches)


def _session(project: Any, length: int) -> Any:
    """Its first, middle and last steps edit one file; an input and a compaction are at its end."""
    from historyapp.core.entries import DebugLog, EntryDraft, ModelInput, ModelOutput, UseTool
    from historyapp.models import Episode
    from historyapp.services.append import append
    from tests.dashboard.long_sessions import long_session

    session = long_session(project, length)
    edited = Episode.objects.filter(session=session, number__in=(1, length // 2, length))
    edited.update(kind="edit", target="notes.txt")
    compacted, user_input = DebugLog(category="compaction", message="full"), ModelInput(content="go on")
    step = ModelOutput(use_tool=UseTool(name="ls", arguments={}))
    append(project, session.pk, [EntryDraft(body) for body in (user_input, compacted, step)])
    return session


def _row(name: str, run: Callable[[], Any]) -> tuple[str, str, str]:
    walls, processor = [], []
    for _ in range(ROUNDS):
        begin, spent = time.perf_counter(), time.process_time()
        run()
        walls.append((time.perf_counter() - begin) * 1000)
        processor.append((time.process_time() - spent) * 1000)
    spread = f"{statistics.median(walls):.1f} ms ({min(walls):.1f} to {max(walls):.1f})"
    return name, f"{spread}, {statistics.median(processor):.1f} ms of the processor", "50 ms"


if __name__ == "__main__":
    main()
