"""The time of a search of all sessions among 1,000,000 steps in 5,000 sessions, and the cost of its index.

``python -m bench.searching FOLDER``: the database is made in the folder and kept, so that a second run only
searches. ``--postgres`` starts PostgreSQL there. ``--steps`` makes a smaller project.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psutil

from bench.machinery import machine, report

SESSIONS, STEPS, ROUNDS = 5000, 1_000_000, 5
SAMPLED = 20
"""Sessions whose texts are measured."""
QUERIES = (
    "EnsureSetup", "hooks_test.go", "go test ./...", "ensuresetup", "Ensur*", "reproduce*",
    "error", "file", "the", "test failed", "import error", "pytest", "no such file", '"no such file"',
    '"def test_parse"', '"in the"', "tool:bash", "tool:bash status:error", "status:likely_failed pytest",
    "file:hooks_test.go has:edit", 'command:"go test"', 'command:"go test" status:likely_failed',
    "file:setup.py agent:fixer", "model:gpt-5 status:error", "tag:nightly traceback", "has:thought bug",
    "since:7d error", "since:1d tool:bash", "cost>1 error", "steps>100 parser", "tokens>20k EnsureSetup",
    "修", "更新", "ファイル", "العربية", "doesnotexistanywhere", "-tool:bash error", "error -file -the",
    "title:corpus parse", "takes:all parse", "hooks_test.go AND status:likely_failed",
    "EnsureSetup AND command:test AND has:failure",
)  # fmt: skip
REFUSED = (
    "x" * 10_000,
    '"no',
    "a*",
    "*",
    "%",
    "%%%",
    " ".join("abcdefghijklmnopqrstuvwxy"),
    "e " * 20,
    "-the",
)
"""Hostile queries: each must get a response within bounded time."""


@contextmanager
def database(folder: Path, *, is_postgres: bool) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    os.environ |= {"PLAYHEAD_HOME": str(folder), "ALLOWED_HOSTS": "*", "PLAYHEAD_SYNCHRONOUS": "OFF"}
    os.environ["DJANGO_SETTINGS_MODULE"] = "historyapp.settings"
    if is_postgres:
        from tests.environment import start_postgres

        os.environ["DATABASE_URL"] = start_postgres(folder / "postgres", durable=False)
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    try:
        yield
    finally:
        if is_postgres:
            from tests.environment import stop_postgres

            stop_postgres(folder / "postgres")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--steps", type=int, default=STEPS)
    chosen = parser.parse_args()
    with database(chosen.folder, is_postgres=chosen.postgres):
        rows = _prepare(chosen.steps)
        rows += _sizes()
        rows += _searches("first page of queries", QUERIES, "100 ms" if chosen.postgres else "300 ms")
        rows += _searches("queries that nobody should send", REFUSED, "5 s")
    report(f"Searching {chosen.steps:,} steps ({machine()})", rows)


def _prepare(steps: int) -> list[tuple[str, str, str]]:
    """Fills the database and makes the index, unless an earlier run has done so."""
    from bench.searched_steps import fill, index_directly
    from historyapp.models import Project, SearchProgress, SearchStep
    from historyapp.services.search.index import catch_up

    project, sessions = Project.objects.filter(name="searched").first(), max(1, SESSIONS * steps // STEPS)
    if project is None:
        project = fill(steps, sessions)
    if SearchProgress.objects.filter(project=project, is_behind=False).exists():
        return []
    corpus = Project.objects.get(name="corpus").pk
    started, used = time.monotonic(), time.process_time()
    assert catch_up(corpus, lambda: False)
    taken, cpu = time.monotonic() - started, time.process_time() - used
    indexed = SearchStep.objects.filter(project=corpus).count()
    index_directly(project, steps, sessions)
    _settle()
    rate = f"{indexed / taken:,.0f} steps a second, {cpu / indexed * 1000:.2f} ms of processor time each"
    return [(f"making the index of the corpus' {indexed:,} steps", rate, "")]


def _settle() -> None:
    """Updates the database's statistics about its tables, as its maintenance does."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("PRAGMA optimize" if connection.vendor == "sqlite" else "VACUUM ANALYZE")


def _sizes() -> list[tuple[str, str, str]]:
    from bench.searched_steps import text_bytes
    from historyapp.models import Project, SearchStep, Session
    from historyapp.models.sql import fetch_all
    from historyapp.models.vendor import on_sqlite

    project = Project.objects.get(name="searched")
    steps = SearchStep.objects.filter(project=project).count()
    sessions = list(Session.objects.filter(project=project).order_by("pk").values_list("pk", flat=True))
    text = text_bytes(sessions[:: max(1, len(sessions) // SAMPLED)]) * steps
    if on_sqlite():
        patterns = ["%searchwords%", "%searchstep%", "search_step%"]
        where = " OR ".join(["name LIKE %s"] * len(patterns))
        size = fetch_all(f"SELECT sum(pgsize) FROM dbstat WHERE {where}", patterns)[0][0]
    else:
        size = fetch_all("SELECT pg_total_relation_size('historyapp_searchstep')", [])[0][0]
    figure = f"**{size / text:.2f}** ({size / 1e6:,.0f} MB of {text / 1e6:,.0f} MB)"
    return [(f"index, compared with the text of {steps:,} steps", figure, "1.0")]


def _searches(name: str, queries: tuple[str, ...], target: str) -> list[tuple[str, str, str]]:
    """Each query several times over HTTP's view, in this process: by the clock, and in processor time."""
    client = _client()
    took: dict[str, list[tuple[float, float]]] = {query: [] for query in queries}
    for _ in range(ROUNDS):
        for query in queries:
            started, used = time.perf_counter(), _used()
            client(query)
            took[query].append(((time.perf_counter() - started) * 1000, (_used() - used) * 1000))
    rows, middle = [], {query: statistics.median(busy for _, busy in took[query]) for query in queries}
    for query in sorted(queries, key=lambda each_query: -middle[each_query]):
        clock = statistics.median(waited for waited, _ in took[query])
        sys.stderr.write(f"{middle[query]:7.0f} ms of processor time, {clock:7.0f} ms  {query[:60]}\n")
    for place, way in ((0, "by the clock"), (1, "in processor time")):
        every = sorted(each_query[place] for values in took.values() for each_query in values)
        p95 = every[int(0.95 * len(every))]
        figure = f"{statistics.median(every):.0f} ms, **{p95:.0f} ms**"
        rows.append((f"{name} ({len(queries)}), {way}: median, 95 %", figure, target))
    slowest = sorted(queries, key=lambda each_query: -middle[each_query])[:3]
    shown = ", ".join(f"`{query[:40]}` {middle[query]:.0f}" for query in slowest)
    return [*rows, (f"{name}: the slowest, in processor time", shown + " ms", "")]


def _used() -> float:
    """Seconds of processor time that this process and its PostgreSQL backend have used."""
    from django.db import connection

    used = time.process_time()
    if connection.vendor == "postgresql":
        connection.ensure_connection()
        times = psutil.Process(connection.connection.info.backend_pid).cpu_times()
        used += times.user + times.system
    return used


def _client() -> Callable[[str], None]:
    from django.contrib.auth.models import User
    from django.test import Client

    from historyapp.models import Membership, Project

    project = Project.objects.get(name="searched")
    user, _ = User.objects.get_or_create(username="person")
    Membership.objects.get_or_create(project=project, user=user, defaults={"is_owner": True})
    client = Client()
    client.force_login(user)

    def search(query: str) -> None:
        response = client.get(f"/search?q={quote(query)}")
        assert response.status_code in (200, 422), response.status_code

    return search


if __name__ == "__main__":
    main()
