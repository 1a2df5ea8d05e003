"""Sends the writes that wait in a spool, from a task that ends when no write is left."""

import asyncio
import itertools
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress

from historyapp.client.errors import NotSpooled
from historyapp.client.retrying import Outcome, RetryLimit, growing_pause
from historyapp.client.spool import Spool, Write
from historyapp.client.spooled_writes import TURN_PAUSE, finish_write, log


class AsyncSender:
    """:class:`historyapp.client.spool_sender.Sender` for the async client.

    Disks are slow, so the file is read and written in a thread.
    """

    def __init__(
        self, spool: Spool, server: str, attempt: Callable[[Write, float], Awaitable[Outcome]]
    ) -> None:
        self.spool, self._server, self._attempt = spool, server, attempt
        self._task: asyncio.Task[None] | None = None

    async def put(self, write: Write) -> None:
        """As :meth:`historyapp.client.spool_sender.Sender.put`."""
        try:
            await asyncio.to_thread(self.spool.put, write)
        except NotSpooled:
            await self.drain(self.spool.patience)
            await asyncio.to_thread(self.spool.put, write)
        await self.start()

    async def send_all(self, retry_limit: RetryLimit) -> str:
        end = time.monotonic() + retry_limit.seconds
        for attempt in itertools.count(1):
            reason = await self.drain(end - time.monotonic())
            pause = growing_pause(attempt)
            if not reason or attempt == retry_limit.attempts or time.monotonic() + pause >= end:
                return reason
            await asyncio.sleep(pause)
        raise AssertionError  # unreachable: the count is infinite

    async def drain(self, seconds: float) -> str:
        end = time.monotonic() + seconds
        while (lock := self.spool.lock()) is None:
            if time.monotonic() >= end:
                return "another client is sending the writes of this spool."
            await asyncio.sleep(TURN_PAUSE)
        with closing(lock):
            while write := await asyncio.to_thread(self.spool.first, self._server):
                remaining = end - time.monotonic()
                if remaining <= 0:
                    return "there was not enough time to send all writes."
                outcome = await self._attempt(write, remaining)
                if reason := await asyncio.to_thread(finish_write, self.spool, write, outcome):
                    return reason
        return ""

    async def start(self) -> None:
        task = self._task
        # A task of an event loop that has ended is done, or will never be done.
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            self._task = asyncio.create_task(self._run(), name="playhead-spool")

    async def stop(self) -> None:
        if self._task is not None and self._task.get_loop() is asyncio.get_running_loop():
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._task = None

    async def _run(self) -> None:
        failures = 0
        while not await self._is_done():
            try:
                reason = await self.drain(math.inf)
            except NotSpooled as error:
                reason = str(error)
            failures = failures + 1 if reason else 0
            if reason:
                pause = growing_pause(failures)
                log.warning(
                    "The spool %s keeps its writes: %s Retrying in %.2f s", self.spool.path, reason, pause
                )
                await asyncio.sleep(pause)

    async def _is_done(self) -> bool:
        """Whether no write is left. A later write starts a new task."""
        try:
            # Read in this thread, so that no write is added in the meantime.
            is_empty = self.spool.first(self._server) is None
        except NotSpooled:
            return False
        if is_empty:
            self._task = None
        return is_empty
