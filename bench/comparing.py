"""Time of comparing two runs: 500 steps against 500 others, and forks of 100,000 steps with their parent.

``python -m bench.comparing [sqlite|postgres] [STEPS…]``. The first page of 50 pairs is made as well, as the
API and the page do. The cases take turns, so that a disturbance affects all.
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
from tests.environment import start_postgres, stop_postgres

SHORT, LENGTHS = 500, (10_000, 100_000)
ROUNDS = 15


def main(database: str = "sqlite", *lengths: str) -> None:
    """Measures in a process of its own, with a database of its own."""
    steps = [int(length) for length in lengths] or list(LENGTHS)
    with home() as folder:
        url = start_postgres(folder / "postgres") if database == "postgres" else ""
        environment = {
            **os.environ, "PLAYHEAD_HOME": str(folder), "PLAYHEAD_SYNCHRONOUS": "OFF", "DATABASE_URL": url
        }  # fmt: skip
        code = f"from bench.comparing import measure; measure({steps})"
        try:
            for command in (["migrate", "--verbosity", "0"], ["shell", "--no-imports", "-c", code]):
                subprocess.run([sys.executable, "manage.py", *command], cwd=ROOT, env=environment, check=True)
        finally:
            if url:
                stop_postgres(folder / "postgres")


def measure(lengths: list[int]) -> None:
    """Fills sessions and forks and compares them. Runs inside Django."""
    from bench.fill import fill, step
    from historyapp.models import Session
    from historyapp.services.append import append
    from historyapp.services.rewinds import fork

    cases: dict[str, Callable[[], Any]] = {}
    fill((SHORT, *lengths))
    short, *long = Session.objects.order_by("created_at")
    other = _other_run(short)
    cases[f"{SHORT} steps against {SHORT}, every tenth one another"] = partial(_compare, short.pk, other.pk)
    for parent in long:
        for after in (parent.steps // 2, parent.steps - 20):
            child = fork(parent.project, parent.pk, at_step=after)
            append(parent.project, child.pk, [draft for n in range(30) for draft in step(7 * n)])
            name = f"A fork after step {after:,} of {parent.steps:,} with its parent"
            cases[name] = partial(_compare, parent.pk, child.pk)
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    rows: list[tuple[str, str, str]] = []
    for _ in range(ROUNDS):
        for name, compare in cases.items():
            wall, processor = time.perf_counter(), time.process_time()
            compare()
            used = time.process_time() - processor
            taken[name].append((1000 * (time.perf_counter() - wall), 1000 * used))
    for name, times in taken.items():
        wall, processor = map(statistics.median, zip(*times, strict=True))
        rows.append((name, f"{wall:.0f} ms, {processor:.0f} ms of processor time", "100 ms"))
    report("Comparing two runs (medians)", rows)


def _other_run(session: Any) -> Any:
    """A session with this many steps. Every tenth makes a different tool call."""
    from bench.fill import step
    from historyapp.services.append import append
    from historyapp.services.sessions import create_session

    other = create_session(session.project, names={"title": "another run"})
    numbers = [n + 10_000 * (n % 10 == 5) for n in range(session.steps)]
    append(session.project, other.pk, [draft for n in numbers for draft in step(n)])
    return other


def _compare(a: Any, b: Any) -> None:
    from historyapp.models import Session
    from historyapp.services.run_comparisons import RunReference, compare_runs

    comparison = compare_runs(RunReference(a), RunReference(b), lambda id: Session.objects.get(pk=id))
    page, _ = comparison.steps.page(0, 50)
    assert comparison.first_divergence(page) is not None


if __name__ == "__main__":
    main(*sys.argv[1:])
