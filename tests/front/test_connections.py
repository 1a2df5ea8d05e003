"""An idle thread keeps a connection, but not what requests have left in it."""

import pytest
from django.db import DatabaseError, connection

from historyapp.front.connections import renew_connection
from historyapp.models import Session

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_connection_to_sqlite_is_renewed_and_one_to_postgresql_is_kept() -> None:
    assert not Session.objects.exists()
    old = connection.connection
    renew_connection()
    new = connection.connection
    assert (new is old) == (connection.vendor == "postgresql")
    assert not Session.objects.exists()
    assert connection.connection is new, "it is open"


def test_a_thread_without_a_connection_gets_none() -> None:
    connection.close()
    renew_connection()
    assert connection.connection is None


def test_a_database_that_cannot_be_used_is_left_to_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise DatabaseError("not now")

    assert not Session.objects.exists()
    with monkeypatch.context() as patch:
        patch.setattr(connection, "get_new_connection", refuse)
        renew_connection()
    assert not Session.objects.exists()
