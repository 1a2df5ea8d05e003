"""Statements that go to SQLite's own connection behave as through a cursor of Django."""

from typing import Any

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from historyapp.models.run_sql import run_sql, run_sql_for_each
from historyapp.models.transaction_limits import TransactionLimit
from historyapp.postgresql import base
from historyapp.wire.problems import TransactionTooLong

pytestmark = pytest.mark.django_db

_PUT = "INSERT INTO things VALUES (%s, %s)"


@pytest.fixture(autouse=True)
def things() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE things (id integer UNIQUE, name text)")


def names() -> list[str]:
    return [name for (name,) in run_sql("SELECT name FROM things ORDER BY id", ())]


def test_rows_are_written_and_read() -> None:
    run_sql_for_each(_PUT, [])
    run_sql_for_each(_PUT, [(1, "one")])
    run_sql_for_each(_PUT, [(2, "two"), (3, "100 % three")])
    assert run_sql(_PUT, (4, "four")) == []
    assert names() == ["one", "two", "100 % three", "four"]


@pytest.mark.parametrize("limit", [("MAX_ROWS", 2), ("MAX_CHARACTERS", 6)])
def test_many_rows_are_written_in_parts(monkeypatch: pytest.MonkeyPatch, limit: tuple[str, int]) -> None:
    monkeypatch.setattr(base, *limit)
    run_sql_for_each(_PUT, [(number, f"{number};") for number in range(5)])
    assert names() == ["0;", "1;", "2;", "3;", "4;"]


class SlowRows(list[tuple[int, str]]):
    """Rows whose second part is read when the time limit of the transaction is over."""

    def __init__(self, count: int, limit: TransactionLimit) -> None:
        super().__init__((number, f"{number}") for number in range(count))
        self.limit = limit

    def __getitem__(self, part: Any) -> Any:
        if isinstance(part, slice) and part.start:
            self.limit.until = 0.0
        return super().__getitem__(part)


def test_the_time_limit_ends_many_short_statements_between_their_parts() -> None:
    limit = TransactionLimit(connection, seconds=3600)
    connection.execute_wrappers.append(limit)
    try:
        with pytest.raises(TransactionTooLong):
            run_sql_for_each(_PUT, SlowRows(2_500, limit))
    finally:
        limit.end()
    assert len(names()) == 1_000


@pytest.mark.parametrize("rows", [[(1, "again")], [(2, "two"), (1, "again")]])
def test_errors_are_those_of_django(rows: list[tuple[int, str]]) -> None:
    run_sql(_PUT, (1, "one"))
    with pytest.raises(IntegrityError), transaction.atomic():
        run_sql_for_each(_PUT, rows)
    assert names() == ["one"]


def test_a_broken_transaction_accepts_no_statement() -> None:
    with transaction.atomic():
        transaction.set_rollback(True)
        with pytest.raises(transaction.TransactionManagementError):
            run_sql(_PUT, (1, "one"))
    assert names() == []


def test_wrappers_and_captures_of_django_see_the_statements() -> None:
    def refuse(*_: Any) -> None:
        raise OperationalError("not today")

    with CaptureQueriesContext(connection) as queries:
        run_sql(_PUT, (1, "one"))
    assert len(queries) == 1
    with pytest.raises(OperationalError, match="not today"), connection.execute_wrapper(refuse):
        run_sql(_PUT, (2, "two"))
