"""No ``as_of``, cursor or search makes a read slow. Measured in instructions of SQLite, not in time."""

import json
import time
from base64 import urlsafe_b64decode
from collections.abc import Iterator

import pytest
from django.db import connection

from historyapp.api.cursors import decode_cursor, encode_cursor
from historyapp.models import Project, Session
from tests.api.agent import Agent
from tests.api.test_query_counts import with_steps

pytestmark = pytest.mark.skipif("config.getoption('database') != 'sqlite'", reason="counts SQLite's steps")

SHORT, LONG = 150, 600
"""Steps. No read looks at more than the newest 150."""
UNIT = 50
SLACK = 10
"""Units in which two equal reads may differ."""
READS = [
    *("", "/entries", "/entries?order=newest", "/entries?take=all", "/episodes", "/rewinds", "/summaries"),
    *("/messages?max_tokens=50", "/history", "/progress?from=-10", "/ledger", "/ledger/steps", "/snapshots"),
    *("/contexts?policy=budgeted&max_tokens=500", "/compressions", "/compressions/estimate"),
]
LISTS = ["/entries", "/entries?order=newest", "/entries?take=all", "/episodes", "/ledger/steps"]


def units(agent: Agent, path: str, *statuses: int) -> int:
    """What SQLite does for a read that is answered with 200 or one of these statuses."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 1
        return 0

    connection.ensure_connection()
    connection.connection.set_progress_handler(tick, UNIT)
    try:
        assert agent.get(path).status in (200, *statuses)
    finally:
        connection.connection.set_progress_handler(None, 0)
    return count


def with_query(path: str, **query: object) -> str:
    return path + ("&" if "?" in path else "?") + "&".join(f"{name}={query[name]}" for name in query)


@pytest.fixture
def runs(alice: Agent) -> tuple[Agent, Agent]:
    return with_steps(alice, SHORT), with_steps(alice, LONG)


def test_no_as_of_makes_a_read_slow(runs: tuple[Agent, Agent]) -> None:
    for path in READS:
        worst = []
        for run in runs:
            head = run.get()["head"]
            moments = (0, head // 2, head - 1, head, 2**31 - 1)
            addresses = [with_query(path, as_of=moment) for moment in moments]
            worst.append(max(units(run, one, 422) for one in addresses))
        assert worst[1] <= 1.3 * worst[0] + SLACK, path


def variants(cursor: str, head: int) -> Iterator[str]:
    """Forged cursors: each number of the cursor is replaced by other numbers."""
    name, *values = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    for place, value in enumerate(values):
        for other in (0, 1, head // 2, head, 2**31 - 1) if isinstance(value, int) else ():
            yield encode_cursor(name, *values[:place], other, *values[place + 1 :])


def test_no_cursor_makes_a_list_slow(runs: tuple[Agent, Agent]) -> None:
    for path in LISTS:
        worst = []
        for run in runs:
            cursor, head = run.get(with_query(path, limit=1))["next"], run.get()["head"]
            forged = [with_query(path, limit=20, cursor=one) for one in variants(cursor, head)]
            assert len(forged) >= 5
            worst.append(max(units(run, one, 422) for one in forged))
        assert worst[1] <= 1.3 * worst[0] + SLACK, path


@pytest.fixture
def tagged(project: Project) -> None:
    """1,000 sessions, each with 50 tags that nearly contain what is searched for."""
    tags = ["a" * (50 + number) for number in range(50)]
    made = [Session(project=project, title=f"run {number}") for number in range(1000)]
    for session in made:
        session.tags = tags
    Session.objects.bulk_create(made)


@pytest.mark.usefixtures("tagged")
def test_a_search_through_1000_sessions_with_50_tags_is_fast(alice: Agent) -> None:
    alice.get("/sessions?limit=1")
    searches = ["a" * 150 + "b", "a" * 49 + "b", "+".join(["aa"] * 60)]
    queries = [f"limit=20&q={text}" for text in searches]
    queries += ["limit=20&" + "&".join(["tag=" + "a" * 99] * 20), "limit=20&tag=" + "a" * 49]
    for query in queries:
        started = time.process_time()
        assert alice.get(f"/sessions?{query}").status == 200
        assert time.process_time() - started < 0.15, query  # 0.02 s; with LIKE 0.3 s


@pytest.mark.usefixtures("tagged")
def test_no_cursor_makes_the_list_of_sessions_slow(alice: Agent) -> None:
    path = "/sessions?limit=20"
    usual = units(alice, path)
    assert usual < 100
    (inner,) = decode_cursor("sessions", alice.get(path).body["next"], str)
    list_key = inner.partition("~")[0]
    for moment in ("0001-01-01T00:00:00+00:00", "2026-01-01T00:00:00+00:00", "9999-12-31T23:59:59+00:00"):
        for id in ("0" * 8 + "-0000-7000-8000-" + "0" * 12, "f" * 8 + "-ffff-7fff-bfff-" + "f" * 12):
            cursor = encode_cursor("sessions", f"{list_key}~{id}~{moment}")
            assert units(alice, f"{path}&cursor={cursor}") <= usual + SLACK
