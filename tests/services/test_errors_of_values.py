"""Errors that values cause concern some rows. Other errors of the database concern all."""

import psycopg
import pytest
from django.db import DatabaseError, DataError, InterfaceError, OperationalError, connection

from historyapp.services.faults import concerns_data

VALUES = "SELECT abs(-9223372036854775808)"
"""SQLite's error of an integer that does not fit into 64 bits."""


def caused_by(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.skipif(connection.vendor != "sqlite", reason="these are SQLite's errors")
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (VALUES, True),
        ("SELECT * FROM historyapp_nothing", False),
    ],
)
def test_sqlite_tells_values_from_missing_tables(db: None, statement: str, expected: bool) -> None:
    with pytest.raises(DatabaseError) as caught, connection.cursor() as cursor:
        cursor.execute(statement)
    assert concerns_data(caught.value) == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OverflowError("Python int too large to convert to SQLite INTEGER"), True),
        (caused_by(DataError("out of range"), psycopg.errors.NumericValueOutOfRange("out of range")), True),
        (caused_by(DatabaseError("violates check"), psycopg.errors.CheckViolation("violates check")), True),
        (caused_by(OperationalError("too long"), psycopg.errors.ProgramLimitExceeded("too long")), True),
        (caused_by(OperationalError("deadlock"), psycopg.errors.DeadlockDetected("deadlock")), False),
        (OperationalError("database is locked"), False),
        (InterfaceError("connection already closed"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_errors_of_values_concern_some_rows(error: Exception, expected: bool) -> None:
    assert concerns_data(error) == expected
