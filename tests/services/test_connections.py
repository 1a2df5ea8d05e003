"""The slots for connections of long work."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import connection

from historyapp.services import connections
from historyapp.services.connections import (
    ConnectionsInUse,
    ConnectionSlots,
    limited_connections,
    release_connection,
    short_connection,
    unlimited_connection,
)

pytestmark = pytest.mark.django_db(transaction=True)
on_postgres = pytest.mark.skipif(
    "config.getoption('database') != 'postgres'", reason="SQLite has no maximum of connections"
)


class Takers:
    """Threads that wait for slots."""

    def __init__(self, slots: ConnectionSlots) -> None:
        self.got: list[str] = []
        """The owners, in the order in which their threads got a slot."""
        self._slots = slots
        self._threads: list[threading.Thread] = []

    def start(self, owner: str) -> None:
        waiting = len(self._slots._waiting)
        thread = threading.Thread(target=self._take, args=(owner,), daemon=True)
        self._threads.append(thread)
        thread.start()
        end = time.monotonic() + 10
        while len(self._slots._waiting) == waiting and thread.is_alive() and time.monotonic() < end:
            time.sleep(0.001)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _take(self, owner: str) -> None:
        self._slots.take(owner, 10)
        self.got.append(owner)
        self._slots.give_back(owner)


def test_an_owner_has_few_slots_and_others_get_theirs_at_once() -> None:
    slots = ConnectionSlots(limit=4, spare=2, own=3)
    for owner in ("a", "a", "a", "b"):
        slots.take(owner, 0)
    for owner in ("a", "b"):
        with pytest.raises(ConnectionsInUse) as refused:
            slots.take(owner, 0.01)
        assert refused.value.retry_after
    for owner in ("c", "d"):
        slots.take(owner, 0)  # a spare slot
    with pytest.raises(ConnectionsInUse):
        slots.take("e", 0.01)
    slots.give_back("a")
    slots.take("e", 0)


def test_the_owner_with_the_fewest_slots_is_next() -> None:
    slots = ConnectionSlots(limit=2, spare=0, own=2)
    for _ in range(2):
        slots.take("a", 0)
    takers = Takers(slots)
    for owner in ("a", "a", "b"):
        takers.start(owner)
    assert takers.got == []
    slots.give_back("a")
    takers.join()
    assert sorted(takers.got) == ["a", "a", "b"]
    assert takers.got[0] == "b"
    slots.give_back("a")
    assert not slots._taken


def test_a_thread_whose_time_is_over_keeps_no_slot() -> None:
    slots = ConnectionSlots(limit=1, spare=0, own=1)
    slots.take("a", 0)
    with pytest.raises(ConnectionsInUse):
        slots.take("b", 0.01)
    slots.give_back("a")
    assert not slots._taken
    assert not slots._waiting


@contextmanager
def _slots(monkeypatch: pytest.MonkeyPatch, **limits: int) -> Iterator[ConnectionSlots]:
    slots = ConnectionSlots(**limits)
    monkeypatch.setattr(connections, "SLOTS", slots)
    monkeypatch.setattr(connections, "WAIT_SECONDS", 0.05)
    connection.close()
    yield slots
    connection.close()
    assert not slots._taken


def _query() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


@on_postgres
def test_a_connection_takes_a_slot_until_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with _slots(monkeypatch, limit=2, spare=0, own=1) as slots:
        with limited_connections("ours"):
            assert not slots._taken
            _query()
            _query()
            assert slots._taken == {"ours": 1}
            release_connection()
            assert not slots._taken
            _query()
        assert not slots._taken
        assert connection.connection is None
        _query()
        assert not slots._taken, "a short request needs no slot"


@on_postgres
def test_a_connection_that_fails_gives_its_slot_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**parameters: Any) -> None:
        raise psycopg.OperationalError("too many clients already")

    with _slots(monkeypatch) as slots:
        with limited_connections("ours"), monkeypatch.context() as patch:
            patch.setattr(psycopg, "connect", refuse)
            with pytest.raises(Exception, match="too many clients"):
                _query()
        assert not slots._taken


@on_postgres
def test_without_a_free_slot_no_connection_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    with _slots(monkeypatch, limit=1, spare=0, own=1) as slots:
        slots.take("ours", 0)
        with short_connection("ours"):
            with pytest.raises(ConnectionsInUse):
                _query()
            with unlimited_connection():
                _query()
            assert connection.connection is None
        slots.give_back("ours")
