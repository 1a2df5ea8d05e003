"""Searches end in time, whatever their statements do."""

import pytest
from django.db import OperationalError, connection

from historyapp.models import search_limits
from historyapp.models.fields import on_sqlite
from historyapp.models.search_limits import limit_statements
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
