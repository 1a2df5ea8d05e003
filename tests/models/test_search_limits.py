"""Searches end in time, whatever their statements do."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, connection

from dashboard import run_comparison
from historyapp.models import Project, Session, search_limits
from historyapp.models.recent import active_sessions
from historyapp.models.search_limits import limit_statements
from historyapp.models.session_filters import SessionCriteria, facet_counts
from historyapp.models.session_groups import session_groups
from historyapp.models.session_lists import Order, page_of
from historyapp.models.vendor import on_sqlite
from historyapp.wire.problems import SearchTooSlow

pytestmark = pytest.mark.django_db

_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def run(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        cursor.fetchall()


def test_a_statement_ends_at_the_limit() -> None:
    with pytest.raises(SearchTooSlow, match=r"0.02 seconds. Add a word"), limit_statements(0.02):
        run(_ENDLESS)
    run("SELECT 1")


def test_a_statement_ends_earlier_while_the_log_of_changes_is_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not on_sqlite():
        pytest.skip("PostgreSQL has no such log")
    monkeypatch.setattr(search_limits, "LOG_SECONDS", 0.0)
    monkeypatch.setattr(search_limits, "excessive_wal", lambda path: 1)
    with pytest.raises(SearchTooSlow, match="a second, while much is stored"), limit_statements(5):
        run(_ENDLESS)


def test_another_error_of_a_statement_stays_as_it_is() -> None:
    with pytest.raises(OperationalError, match="oops"), limit_statements(60):
        raise OperationalError("oops")


@pytest.mark.parametrize(
    "read",
    [
        lambda: page_of(Session.objects.search("a"), Order(), ""),
        lambda: facet_counts(Session.objects.all(), SessionCriteria(q="a")),
        lambda: session_groups(Session.objects.all(), "agent", Order()),
        lambda: active_sessions(UUID(int=1)),
        lambda: run_comparison.first_candidates(Project(name="Alice's"), "a"),
    ],
    ids=["page", "facets", "groups", "active", "candidates"],
)
def test_what_searches_all_sessions_of_a_project_is_a_search(
    read: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A word is searched in up to 5,000 characters of each session."""
    if not on_sqlite():
        pytest.skip("PostgreSQL limits each statement")
    monkeypatch.setattr(search_limits, "OPERATIONS", 1)
    monkeypatch.setattr(search_limits, "LOG_SECONDS", -1.0)
    monkeypatch.setattr(search_limits, "excessive_wal", lambda path: 1)
    with pytest.raises(SearchTooSlow):
        read()
