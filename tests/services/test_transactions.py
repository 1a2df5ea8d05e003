"""How long a write waits for other writers on SQLite."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.utils import timezone
from pytest_django import Settings

from historyapp.models import ApiKey, Project
from historyapp.services import transactions
from historyapp.services.faults import current_fault, fault_of
from historyapp.services.keys import create_key, record_use
from historyapp.services.search.index import catch_up_for_search
from historyapp.services.sessions import create_session
from historyapp.services.sqlite_lock import begin_wait, fail_wait
from historyapp.services.transactions import (
    gives_way,
    giving_way,
    queued_seconds,
    write_in_parts,
    writing,
    writing_together,
)
from historyapp.wire.problems import DatabaseLocked, StorageFailed

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("config.getoption('database') != 'sqlite'", reason="only SQLite has one writer"),
]

SECONDS = 1.5


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Writes wait for a short time only."""
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "timeout", SECONDS)
    connection.close()
    yield
    connection.close()


@pytest.fixture
def foreign_lock() -> Iterator[None]:
    """Another program holds the database."""
    with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def seconds_of_write() -> float:
    """How long a write waits until it fails."""
    started = time.monotonic()
    with pytest.raises(OperationalError), writing():
        pass
    return time.monotonic() - started


def test_writes_that_wait_for_each_other_and_for_another_program_wait_once(
    patience: None, foreign_lock: None
) -> None:
    waits: list[float] = []

    def write() -> None:
        connection.settings_dict["OPTIONS"]["timeout"] = SECONDS
        waits.append(seconds_of_write())
        connection.close()

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(waits) == 4
    assert max(waits) < 1.8 * SECONDS


def codes_of_writes(number: int) -> list[str | None]:
    """The faults of as many writes at once, which all fail."""
    codes = list[str | None]()

    def write() -> None:
        connection.settings_dict["OPTIONS"]["timeout"] = SECONDS
        with pytest.raises(OperationalError) as caught, writing():
            pass
        fault = fault_of(caught.value)
        codes.append(fault.code if fault else None)
        connection.close()

    threads = [threading.Thread(target=write) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return codes


@pytest.fixture
def short_transactions(settings: Settings) -> None:
    settings.PLAYHEAD_TRANSACTION_SECONDS = 0.6


@pytest.mark.usefixtures("patience", "short_transactions")
def test_every_write_that_waits_for_another_program_names_its_lock(foreign_lock: None) -> None:
    """Of six, one did. The others had waited for the thread that waits for SQLite."""
    before, seen = current_fault(), list[StorageFailed | None]()
    timer = threading.Timer(1.0, lambda: seen.append(current_fault()))
    timer.start()
    assert codes_of_writes(6) == ["database-locked"] * 6
    timer.join()
    assert before is None
    assert isinstance(seen[0], DatabaseLocked), "health checks know it before the first write fails"


@pytest.mark.usefixtures("patience", "short_transactions")
def test_a_write_that_waits_for_another_thread_names_no_lock() -> None:
    with writing():
        assert codes_of_writes(2) == [None, None]
        assert current_fault() is None


@pytest.mark.usefixtures("patience", "short_transactions")
def test_a_lock_is_forgotten_after_the_next_write(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        seconds_of_write()
        assert isinstance(current_fault(), DatabaseLocked)
        other.execute("ROLLBACK")
    with writing():
        assert current_fault() is None
    begin_wait()
    fail_wait()
    assert current_fault() is None, "a short wait for another process says nothing"


def test_the_wait_for_a_thread_counts_as_a_wait_for_other_writers(patience: None, foreign_lock: None) -> None:
    before = queued_seconds.set(SECONDS - 0.3)
    assert seconds_of_write() < 0.7 * SECONDS
    queued_seconds.reset(before)
    assert seconds_of_write() > 0.8 * SECONDS


def test_the_last_use_of_a_key_is_stored_only_if_nobody_else_writes(
    patience: None, foreign_lock: None
) -> None:
    started = time.monotonic()
    with pytest.raises(OperationalError):
        record_use(ApiKey(last_used_at=None), timezone.now())
    assert time.monotonic() - started < SECONDS / 2
    assert seconds_of_write() > 0.8 * SECONDS  # the next write waits for its full time again


def test_the_last_use_of_a_key_is_stored(patience: None) -> None:
    key, _ = create_key(Project.objects.create(name="P"), "agent", scopes=["read"], actor="test")
    record_use(key, now := timezone.now() + timedelta(hours=1))
    assert ApiKey.objects.get(pk=key.pk).last_used_at == now


def test_a_search_waits_briefly_before_it_updates_its_index(patience: None) -> None:
    project = Project.objects.create(name="P")
    create_session(project)
    with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        started = time.monotonic()
        assert catch_up_for_search(project.pk) is False
        assert time.monotonic() - started < SECONDS / 2
        other.execute("ROLLBACK")
    assert catch_up_for_search(project.pk) is True


def write(name: str) -> None:
    with writing():
        Project.objects.create(name=name)


def test_joined_writes_are_one_transaction_from_the_first_write_on() -> None:
    begun = list[bool]()
    with writing_together(lambda: begun.append(connection.in_atomic_block)):
        assert not connection.in_atomic_block
        write("first")
        assert connection.in_atomic_block
        write("second")
    assert begun == [True]
    assert not connection.in_atomic_block
    assert Project.objects.count() == 2


def test_if_a_block_of_joined_writes_fails_nothing_is_stored() -> None:
    def write_and_fail() -> None:
        write("first")
        write("second")
        raise ValueError

    with pytest.raises(ValueError), writing_together(lambda: write("begin")):  # noqa: PT011  raised here
        write_and_fail()
    assert not Project.objects.exists()


def test_a_brief_write_is_not_joined_because_it_may_fail_without_an_effect() -> None:
    begun = list[bool]()
    with writing_together(lambda: begun.append(True)):
        with writing(max_wait=0.1):
            Project.objects.create(name="brief")
        assert not connection.in_atomic_block
    assert not begun
    assert Project.objects.exists()


class WatchedLock:
    """A lock that counts the threads that wait for it or hold it."""

    def __init__(self) -> None:
        self.lock, self.threads, self.most = threading.RLock(), 0, 0

    def acquire(self, timeout: float) -> bool:
        self.threads += 1
        self.most = max(self.most, self.threads)
        return self.lock.acquire(timeout=timeout)

    def release(self) -> None:
        self.threads -= 1
        self.lock.release()


@pytest.mark.parametrize(("is_long", "most"), [(True, 1), (False, 3)])
def test_of_long_requests_only_one_at_a_time_waits_with_the_short_ones(
    is_long: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So an append waits for at most one of fifty model calls."""
    lock = WatchedLock()
    monkeypatch.setattr(transactions, "_sqlite_writer", lock)
    written = list[int]()

    def write(number: int) -> None:
        gives_way.set(is_long)
        with writing():
            written.append(number)
        connection.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    with lock.lock:  # another writer, until all have come to one of the two locks
        for thread in threads:
            thread.start()
        end = time.monotonic() + 10
        while lock.threads < most and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.1)
    for thread in threads:
        thread.join(10)
    assert sorted(written) == [0, 1, 2]
    assert lock.most == most


def test_a_long_request_pauses_after_each_transaction_so_that_others_can_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An import began its next transaction at once, and appends waited for many of them."""
    written, names = list[str](), list[str]()

    def write_short() -> None:
        with writing():
            written.append("short")
        connection.close()

    def sleep(seconds: float) -> None:
        names.append("long pause" if seconds >= 0.2 else "short pause")
        other = threading.Thread(target=write_short)
        other.start()
        other.join(5)

    token = gives_way.set(True)
    try:
        with monkeypatch.context() as patched:
            for seconds in (0.2, 0.0):
                with writing(), writing():
                    threading.Event().wait(seconds)
                    written.append("long")
                    patched.setattr("historyapp.services.transactions.time.sleep", sleep)
    finally:
        gives_way.reset(token)
    assert names == ["long pause", "short pause"]
    assert written == ["long", "short", "long", "short"]


def test_the_pause_of_a_long_request_does_not_include_its_wait_for_the_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind a busy writer, a model call wrote half as fast."""
    pauses = list[float]()
    has_begun = threading.Event()

    def write_first() -> None:
        with writing():
            has_begun.set()
            threading.Event().wait(0.3)
        connection.close()

    first = threading.Thread(target=write_first)
    first.start()
    has_begun.wait(5)
    token = gives_way.set(True)
    try:
        with monkeypatch.context() as patched:
            patched.setattr("historyapp.services.transactions.time.sleep", pauses.append)
            with writing():
                pass
    finally:
        gives_way.reset(token)
        first.join(5)
    assert len(pauses) == 1
    assert pauses[0] < 0.2


@pytest.mark.usefixtures("patience")
def test_the_pause_does_not_include_the_wait_for_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a server that writes, a worker would be many times as slow."""
    pauses = list[float]()
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.4, other.rollback)
    release.start()
    try:
        with giving_way(), monkeypatch.context() as patched:
            patched.setattr("historyapp.services.transactions.time.sleep", pauses.append)
            with writing():
                pass
    finally:
        release.join(5)
        other.close()
    assert len(pauses) == 1
    assert pauses[0] < 0.2


def test_a_pause_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = list[float]()
    monkeypatch.setattr(transactions, "_MAX_PAUSE", 0.02)
    with giving_way(), monkeypatch.context() as patched:
        patched.setattr("historyapp.services.transactions.time.sleep", slept.append)
        with writing():
            threading.Event().wait(0.1)
    assert slept == [0.02]


@pytest.mark.parametrize(("gives", "pauses"), [(True, 3), (False, 2)])
def test_parts_of_a_write_are_followed_by_one_pause_each(
    gives: bool, pauses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import paused twice between two parts. Without giving way, none follows the last one."""
    slept = list[float]()
    with giving_way() if gives else nullcontext(), monkeypatch.context() as patched:
        patched.setattr("historyapp.services.transactions.time.sleep", slept.append)
        write_in_parts(range(3), 1, list)
    assert len(slept) == pauses
