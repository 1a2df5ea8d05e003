"""Each change reaches every subscriber once and in order, whenever it joins and however slow it is."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from django.db import DataError, Error, InterfaceError, OperationalError

from historyapp.event_streams import Reader, Subscription
from historyapp.front import streams
from historyapp.front.limits import Clients
from historyapp.front.streams import MAX_WAITING, Streams
from historyapp.models.changes import START, ChangePage, Cursor, ReadChange
from historyapp.wire.problems import CursorExpired, TooManyRequests
from tests.front.limits import small_limits
from tests.front.virtual_time import run_in_virtual_time

PROJECT, OTHER_PROJECT, SESSION, OTHER = uuid4(), uuid4(), uuid4(), uuid4()
READER = Reader(PROJECT, key=uuid4())


class Database:
    """The feed of one project, in memory, and the empty feed of another one."""

    def __init__(self) -> None:
        self.changes: list[ReadChange] = []
        self.reads: list[tuple[UUID, Cursor]] = []
        self.page = 1000
        self.oldest = START
        self.fails = 0
        self.other_has_more = False
        """Whether the other project's feed always has another page."""
        self.error: type[Exception] = OperationalError
        self.allowed = {READER}

    def add(self, session: UUID = SESSION, kind: str = "entries", count: int = 1) -> None:
        for _ in range(count):
            cursor = Cursor(0, len(self.changes) + 1)
            self.changes.append(ReadChange(cursor, kind, session, 1, 1, None, datetime.now(UTC)))

    def changes_since(self, project: UUID, cursor: Cursor, *, session: UUID | None = None) -> ChangePage:
        self.reads.append((project, cursor))
        if project == OTHER_PROJECT:
            return ChangePage([], cursor, has_more=self.other_has_more)
        if self.fails:
            self.fails -= 1
            raise self.error("no database")
        if cursor < self.oldest:
            raise CursorExpired("gone")
        rows = self.changes[cursor.id : cursor.id + self.page]
        matching = [row for row in rows if session in (None, row.session)]
        has_more = cursor.id + self.page < len(self.changes)
        return ChangePage(matching, rows[-1].cursor if rows else cursor, has_more)


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    database = Database()
    monkeypatch.setattr(streams, "changes_since", database.changes_since)
    monkeypatch.setattr(streams, "progress", lambda: len(database.changes))
    monkeypatch.setattr(streams, "still_allowed", lambda readers: database.allowed)
    monkeypatch.setattr(streams, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(streams, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.1)
    return database


class Follower:
    """Reads one stream until it ends."""

    def __init__(
        self,
        all_streams: Streams,
        session: UUID | None = None,
        cursor: Cursor = START,
        newest: Cursor = START,
        project: UUID = PROJECT,
    ) -> None:
        self.ids: list[int] = []
        self.places: list[str] = []
        self.may_read = asyncio.Event()
        self.may_read.set()
        self._streams = all_streams
        self.task = asyncio.create_task(self._read(Subscription(project, session, cursor, newest, READER)))

    async def _read(self, subscription: Subscription) -> None:
        with self._streams.open_stream(subscription) as stream:
            async for text in self._streams.texts(stream):
                for block in text.split("\n\n"):
                    if "id: " in block:
                        self.places.append(block.rpartition("id: ")[2])
                        if "event:" in block:
                            self.ids.append(int(self.places[-1].partition("-")[2]))
                await self.may_read.wait()

    async def reads(self, *ids: int) -> None:
        async with asyncio.timeout(5):
            while len(self.ids) < len(ids):
                await asyncio.sleep(0.01)
        assert self.ids == list(ids)


def run(scenario: Callable[[Streams], Awaitable[None]]) -> None:
    async def main() -> None:
        all_streams = Streams()
        try:
            async with asyncio.timeout(10):
                await scenario(all_streams)
        finally:
            all_streams.stop()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.wait(others, timeout=2) if others else None
            assert len(all_streams) == 0

    run_in_virtual_time(main())


def test_a_late_stream_gets_missed_changes_before_new_ones(database: Database) -> None:
    database.page = 3

    async def scenario(all_streams: Streams) -> None:
        first = Follower(all_streams)
        database.add(count=7)
        await first.reads(*range(1, 8))
        late = Follower(all_streams, cursor=Cursor(0, 2))
        database.add(count=2)
        await late.reads(*range(3, 10))
        await first.reads(*range(1, 10))
        ahead = Follower(all_streams, cursor=Cursor(0, 11))
        database.add(count=4)
        await ahead.reads(12, 13)

    run(scenario)


def test_a_feed_begins_at_the_newest_change_whatever_its_first_reader_has_missed(database: Database) -> None:
    database.page = 3
    database.add(count=9)

    async def scenario(all_streams: Streams) -> None:
        late = Follower(all_streams, cursor=Cursor(0, 2), newest=Cursor(0, 9))
        await asyncio.sleep(0)
        assert all_streams._feeds[PROJECT].cursor == Cursor(0, 9)
        await late.reads(*range(3, 10))
        database.add()
        await late.reads(*range(3, 11))

    run(scenario)


def test_other_feeds_are_read_after_each_page_of_a_feed_that_is_behind(database: Database) -> None:
    database.page = 3

    async def scenario(all_streams: Streams) -> None:
        follower, other = Follower(all_streams), Follower(all_streams, project=OTHER_PROJECT)
        await asyncio.sleep(0.05)
        database.other_has_more = True
        database.reads.clear()
        database.add(count=12)
        await follower.reads(*range(1, 13))
        projects = [project for project, _ in database.reads]
        assert projects[:8] == [PROJECT, OTHER_PROJECT] * 4
        assert not other.task.done()

    run(scenario)


def test_many_streams_get_events_with_pauses_in_between(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise other requests would wait until all streams have theirs."""
    monkeypatch.setattr(streams, "AT_ONCE", 10)
    monkeypatch.setattr(streams, "PAUSE_SECONDS", 0.1)

    async def scenario(all_streams: Streams) -> None:
        followers = [Follower(all_streams) for _ in range(25)]
        await asyncio.sleep(0.05)
        database.add()
        counts = set[int]()
        async with asyncio.timeout(5):
            while (count := sum(bool(follower.ids) for follower in followers)) < 25:
                counts.add(count)
                await asyncio.sleep(0.02)
        assert counts == {0, 10, 20}

    run(scenario)


def test_a_feed_with_many_streams_rests_while_other_feeds_are_read(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "SEND_SECONDS", 0.05)

    async def scenario(all_streams: Streams) -> None:
        followers = [Follower(all_streams) for _ in range(8)]
        Follower(all_streams, project=OTHER_PROJECT)
        await asyncio.sleep(0.1)
        database.other_has_more = True
        database.add()
        await followers[0].reads(1)
        database.reads.clear()
        for _ in range(10):
            database.add()
            await asyncio.sleep(0.02)
        await followers[-1].reads(*range(1, 12))
        projects = [project for project, _ in database.reads]
        assert projects.count(PROJECT) == 1
        assert projects.count(OTHER_PROJECT) > 3

    run(scenario)


def test_a_stream_that_opens_while_the_server_stops_ends_at_once(database: Database) -> None:
    """Otherwise the server would wait for it until it is killed, and cut off other responses then."""

    async def scenario(all_streams: Streams) -> None:
        all_streams.stop()
        async with asyncio.timeout(5):
            await Follower(all_streams).task

    run(scenario)


def test_a_stream_of_a_session_has_only_its_changes(database: Database) -> None:
    async def scenario(all_streams: Streams) -> None:
        everything, one = Follower(all_streams), Follower(all_streams, SESSION)
        database.add()
        database.add(OTHER, count=2)
        database.add()
        await everything.reads(1, 2, 3, 4)
        await one.reads(1, 4)

    run(scenario)


def test_a_stream_without_changes_sends_its_cursor(database: Database) -> None:
    async def scenario(all_streams: Streams) -> None:
        follower = Follower(all_streams, SESSION, Cursor(0, 5))
        await asyncio.sleep(0.35)
        assert follower.places[:2] == ["0-5", "0-5"]
        assert follower.ids == []

    run(scenario)


def test_a_slow_reader_gets_dropped_events_from_the_database(database: Database) -> None:
    async def scenario(all_streams: Streams) -> None:
        slow = Follower(all_streams)
        await asyncio.sleep(0.05)
        slow.may_read.clear()
        database.add(count=2 * MAX_WAITING)
        await asyncio.sleep(0.3)
        slow.may_read.set()
        await slow.reads(*range(1, 2 * MAX_WAITING + 1))

    run(scenario)


def test_queued_events_are_sent_before_dropped_ones(database: Database) -> None:
    async def scenario(all_streams: Streams) -> None:
        slow = Follower(all_streams)
        slow.may_read.clear()
        async with asyncio.timeout(5):
            while not slow.places:  # a heartbeat, after which it reads nothing more
                await asyncio.sleep(0.01)
        database.add(count=2 * MAX_WAITING)
        await asyncio.sleep(0.3)
        slow.may_read.set()
        await slow.reads(*range(1, 2 * MAX_WAITING + 1))

    run(scenario)


def test_the_streams_of_a_deleted_session_end(database: Database) -> None:
    async def scenario(all_streams: Streams) -> None:
        everything, one = Follower(all_streams), Follower(all_streams, SESSION)
        database.add(kind="session_deleted")
        await one.task
        await one.reads(1)
        assert not everything.task.done()

    run(scenario)


def test_a_stream_ends_when_its_reader_loses_permission(database: Database) -> None:
    async def scenario(all_streams: Streams) -> None:
        follower = Follower(all_streams)
        await asyncio.sleep(0.05)
        database.allowed = set()
        await follower.task

    run(scenario)


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_streams_resume_after_a_database_error_without_gaps(database: Database, error: type[Error]) -> None:
    database.error = error

    async def scenario(all_streams: Streams) -> None:
        follower = Follower(all_streams)
        await asyncio.sleep(0.05)
        database.fails = 3
        database.add(count=2)
        await follower.reads(1, 2)

    run(scenario)


@pytest.mark.parametrize("error", [DataError, KeyError])
def test_a_feed_that_cannot_be_read_stops_no_other(database: Database, error: type[Exception]) -> None:
    database.error = error

    async def scenario(all_streams: Streams) -> None:
        broken, other = Follower(all_streams), Follower(all_streams, project=OTHER_PROJECT)
        await asyncio.sleep(0.05)
        database.fails = 1
        database.add(count=2)
        await asyncio.wait_for(broken.task, 5)
        read = len(database.reads)
        database.add()
        async with asyncio.timeout(5):
            while OTHER_PROJECT not in [project for project, _ in database.reads[read:]]:
                await asyncio.sleep(0.01)
        assert not other.task.done()
        await Follower(all_streams).reads(1, 2, 3)

    run(scenario)


def test_streams_continue_after_an_unexpected_error(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [KeyError("unexpected")]

    def progress() -> int:
        if failures and database.changes:
            raise failures.pop()
        return len(database.changes)

    monkeypatch.setattr(streams, "progress", progress)

    async def scenario(all_streams: Streams) -> None:
        follower = Follower(all_streams)
        await asyncio.sleep(0.05)
        database.add()
        await follower.reads(1)

    run(scenario)


def test_a_stream_ends_when_its_cursor_expires(database: Database) -> None:
    async def scenario(all_streams: Streams) -> None:
        follower = Follower(all_streams)
        await asyncio.sleep(0.05)
        database.add(count=3)
        database.oldest = Cursor(0, 2)
        await follower.task

    run(scenario)


def test_a_client_has_a_limited_number_of_streams() -> None:
    clients = Clients(small_limits(client_streams=2))
    with clients.streaming(b"a", "1.2.3.4"), clients.streaming(b"a", "1.2.3.4"):
        with (
            pytest.raises(TooManyRequests, match="PLAYHEAD_CLIENT_STREAMS"),
            clients.streaming(b"a", "5.6.7.8"),
        ):
            pass
        with clients.streaming(b"b", "1.2.3.4"):
            pass
    with clients.streaming(b"a", "1.2.3.4"):
        pass
