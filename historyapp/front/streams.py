"""Open streams of events. They wait in the event loop, and one thread reads the database for all of them.

A feed follows one project from the newest change on and passes each change to the streams that subscribe to
it. A stream that begins earlier or has fallen behind reads the missed changes in another thread. The
connection is closed if a client stops reading.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from uuid import UUID

from django.db import Error, connection

from historyapp.event_streams import Reader, Subscription, cursor_text, event_text, still_allowed
from historyapp.models.changes import ChangeKind, ChangePage, Cursor, ReadChange, changes_since, progress
from historyapp.services.faults import concerns_data
from historyapp.wire.problems import CursorExpired

log = logging.getLogger(__name__)

POLL_SECONDS = 0.1
"""Seconds between two polls of the database for changes of other processes."""
BATCH_SECONDS = 0.01
"""Changes within this time are read together."""
HEARTBEAT_SECONDS = 15.0
MAX_WAITING = 1000
"""The maximum number of events that wait for one reader. Later events are read from the database."""
AT_ONCE = 50
"""The maximum number of streams that get events without a pause. Each takes the event loop about 0.1 ms."""
PAUSE_SECONDS = 0.002
"""The length of this pause."""
SEND_SECONDS = 0.0002
"""A feed that has passed events to its streams rests for this time for each stream. The changes in the
meantime are read together. So a project with 1,000 streams delays others less."""
RETRY_SECONDS = 1.0
"""Seconds before the database is polled again after an error."""


class OpenStream:
    """One reader of a feed."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.cursor = subscription.cursor
        """The last change that was sent or is queued."""
        self.is_behind = False
        """Whether the changes after ``cursor`` must be read from the database."""
        self.ended = False
        self._texts: list[str] = []
        self._changed = asyncio.Event()

    def add(self, cursor: Cursor, text: str) -> None:
        if self.is_behind or cursor <= self.cursor:
            return
        if len(self._texts) >= MAX_WAITING:
            self.is_behind = True
        else:
            self._texts.append(text)
            self.cursor = cursor
        self._changed.set()

    @property
    def must_read(self) -> bool:
        """Whether the next change to send is not queued, only in the database."""
        return self.is_behind and not self._texts and not self.ended

    def end(self) -> None:
        """Ends the stream: the reader is gone or has lost access, or the server stops."""
        self.ended = True
        self._changed.set()

    async def next_text(self) -> str:
        """Waits for the next text to send. Without changes for a while, it is a heartbeat with the cursor."""
        if not self.is_behind:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), HEARTBEAT_SECONDS)
        self._changed.clear()
        texts, self._texts = self._texts, []
        return "".join(texts) or cursor_text(self.cursor)


class Feed:
    """Follows the changes of one project."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        """The streams have the changes up to here, or are getting them."""
        self.progress: int | None = None
        """What :func:`progress` returned before all changes were read. None: there may be unread changes."""
        self.delivery: asyncio.Task[None] | None = None
        """Passes the changes to the streams, then rests."""
        self.turn = asyncio.Lock()
        """Held during a read of missed changes. Streams get it in the order in which they asked for it."""
        self._streams: dict[UUID | None, set[OpenStream]] = defaultdict(set)

    @property
    def streams(self) -> list[OpenStream]:
        return [stream for streams in self._streams.values() for stream in streams]

    def add(self, stream: OpenStream) -> None:
        stream.is_behind = stream.cursor < self.cursor
        self._streams[stream.subscription.session].add(stream)

    def discard(self, stream: OpenStream) -> None:
        streams = self._streams[stream.subscription.session]
        streams.discard(stream)
        if not streams:
            del self._streams[stream.subscription.session]

    async def deliver(self, page: ChangePage) -> None:
        """Passes the changes to the streams, with pauses for other work of the event loop."""
        self.cursor = page.cursor
        texts = [(change, event_text(change)) for change in page.changes if self._has_receiver(change)]
        streams = self.streams if texts else []
        for number, stream in enumerate(streams):
            if number and number % AT_ONCE == 0:
                await asyncio.sleep(PAUSE_SECONDS)
            session = stream.subscription.session
            for change, text in texts:
                if session in (None, change.session):
                    stream.add(change.cursor, text)
                    if session is not None and change.kind == ChangeKind.SESSION_DELETED:
                        stream.end()
        await asyncio.sleep(len(streams) * SEND_SECONDS)

    def _has_receiver(self, change: ReadChange) -> bool:
        return None in self._streams or change.session in self._streams


class Streams:
    """All streams of this process. Only the event loop calls it, except for :meth:`wake`."""

    def __init__(self) -> None:
        self._feeds: dict[UUID, Feed] = {}
        self._reader = ThreadPoolExecutor(1, "events")
        self._catching_up = ThreadPoolExecutor(2, "missed events")
        self._changed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._newest = 0
        """The last result of :func:`progress`."""
        self._next_check = 0.0
        self._stopping = False

    def __len__(self) -> int:
        return sum(len(feed.streams) for feed in self._feeds.values())

    def wake(self) -> None:
        """Signals that there may be new changes. May be called in any thread."""
        if self._feeds and self._loop is not None:
            with suppress(RuntimeError):  # the event loop has ended
                self._loop.call_soon_threadsafe(self._changed.set)

    def stop(self) -> None:
        """Ends all streams, and each later one at once. Their readers reconnect."""
        self._stopping = True
        for feed in self._feeds.values():
            for stream in feed.streams:
                stream.end()

    @contextmanager
    def open_stream(self, subscription: Subscription) -> Iterator[OpenStream]:
        """A stream that receives events while the block runs."""
        stream, project = OpenStream(subscription), subscription.project
        feed = self._feeds.setdefault(project, Feed(subscription.newest))
        feed.add(stream)
        if self._stopping:  # the request began before the server stopped, which waits for its end
            stream.end()
        self._changed.set()
        if self._task is None or self._task.done():
            self._loop = asyncio.get_running_loop()
            self._task = asyncio.create_task(self._follow())
        try:
            yield stream
        finally:
            feed.discard(stream)
            if not feed.streams and self._feeds.get(project) is feed:
                del self._feeds[project]

    async def texts(self, stream: OpenStream) -> AsyncIterator[str]:
        """The texts of a stream, in order, until it ends."""
        while not stream.ended:
            yield await stream.next_text()
            while stream.must_read:
                yield await self._read_missed(stream)

    async def _read_missed(self, stream: OpenStream) -> str:
        """The changes that a stream has missed, or a part of them."""
        subscription = stream.subscription
        try:
            read = partial(changes_since, subscription.project, stream.cursor, session=subscription.session)
            # One page of each project at a time: many streams of one do not keep the threads from others.
            async with self._feeds[subscription.project].turn:
                if stream.ended:
                    return ""
                page: ChangePage = await self._in_thread(self._catching_up, read)
        except CursorExpired:
            stream.end()  # the reader reconnects and gets the error
            return ""
        except Error as error:
            await _wait_after(error)
            return cursor_text(stream.cursor)
        feed = self._feeds[subscription.project]
        stream.cursor = page.cursor if page.has_more else max(page.cursor, stream.cursor)
        stream.is_behind = page.has_more or page.cursor < feed.cursor
        return "".join(map(event_text, page.changes)) + cursor_text(stream.cursor)

    async def _follow(self) -> None:
        """Reads new changes for all feeds, until there are no feeds."""
        while self._feeds:
            try:
                await self._poll()
            except Error as error:
                await _wait_after(error)
            except Exception:  # no stream would get events any more
                log.exception("Event streams continue after an unexpected error.")
                await asyncio.sleep(RETRY_SECONDS)
            await asyncio.sleep(BATCH_SECONDS)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), POLL_SECONDS)
            self._changed.clear()

    async def _poll(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._next_check:
            self._next_check = now + HEARTBEAT_SECONDS
            await self._end_forbidden()
        newest = self._newest = await self._in_thread(self._reader, progress)
        for project, feed in list(self._feeds.items()):
            if feed.progress == newest or feed.delivery is not None:
                continue
            try:
                await self._read_page(project, feed, newest)
            except CursorExpired:
                for stream in feed.streams:
                    stream.end()
            except Exception as error:  # continue with the other feeds
                if not concerns_data(error):
                    raise
                log.exception("The changes of project %s cannot be read. Its streams end.", project)
                for stream in feed.streams:
                    stream.end()

    async def _read_page(self, project: UUID, feed: Feed, newest: int) -> None:
        """Reads one page, so that other feeds wait no longer. The next turn reads the next page."""
        page: ChangePage = await self._in_thread(self._reader, partial(changes_since, project, feed.cursor))
        feed.progress = None if page.has_more else newest
        feed.delivery = asyncio.create_task(self._deliver(feed, page))

    async def _deliver(self, feed: Feed, page: ChangePage) -> None:
        try:
            await feed.deliver(page)
        finally:
            feed.delivery = None
            if feed.progress != self._newest:
                self._changed.set()

    async def _end_forbidden(self) -> None:
        """Ends the streams of readers that have lost access to their project."""
        streams = [stream for feed in self._feeds.values() for stream in feed.streams]
        readers = {stream.subscription.reader for stream in streams}
        allowed: Collection[Reader] = await self._in_thread(self._reader, partial(still_allowed, readers))
        for stream in streams:
            if stream.subscription.reader not in allowed:
                stream.end()

    async def _in_thread(self, threads: ThreadPoolExecutor, read: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(threads, _read_database, read)


def _read_database(read: Callable[[], Any]) -> Any:
    """Calls a function that reads the database. Reopens the connection after an error."""
    try:
        return read()
    except Error:
        connection.close()
        raise


async def _wait_after(error: Error) -> None:
    log.warning("Event streams are waiting for the database: %s", error)
    await asyncio.sleep(RETRY_SECONDS)
