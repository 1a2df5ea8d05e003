"""Requests of strangers, whose key, share link or browser session is missing or has not been found yet.

They begin in turn, so that a flood of them takes a small part of the processor. A request with an unknown API
key gets no thread before the key has been found. Keys are looked up together, many with one query.
"""

import asyncio
import logging
import re
import time
from collections import deque
from contextlib import suppress
from functools import partial

from django.db import close_old_connections

from historyapp.api.auth import NO_KEY, NO_SUCH_KEY
from historyapp.front.limits import KnownClients, bearer_token
from historyapp.front.pool_names import CHECKS
from historyapp.front.pools import Client, Pool
from historyapp.services.keys import find_owners, hash_secret
from historyapp.wire.problems import ServerUnavailable, TooManyRequests, Unauthenticated

log = logging.getLogger(__name__)

RATE = 100
"""Requests of strangers that may begin in one second, from all addresses together. A page takes about 3 ms of
processor time."""
BURST = 200
"""Requests of strangers that may begin at once after a pause."""
CHECK_RATE, CHECK_BURST = 20, 40
"""The same for health checks, so that other strangers do not delay them. Load balancers check every few
seconds."""
MAX_WAITING = 2000
"""When this many requests wait for their turns, an address that already has one waiting is refused."""
MAX_KEYS = 500
"""The maximum number of keys in one query."""
API = "/api/v1/"
WITHOUT_KEY = ("/api/v1/docs", "/api/v1/openapi.json")
"""The addresses of the API that need no key."""
_KEY = re.compile(r"[\x21-\x7e]{16,200}")
"""The form of every key: those that Playhead creates, and those of PLAYHEAD_API_KEY."""
_STOPPING = "The server is stopping. Retry the request."


class StrangerPace:
    """Lets requests begin at a limited rate. Addresses take turns. Used only in the event loop.

    Args:
        rate: requests in a second.
        burst: requests that may begin at once after a pause.
    """

    def __init__(self, rate: float = RATE, burst: int = BURST) -> None:
        self._rate, self._burst = rate, burst
        self._free = float(burst)
        """How many requests could begin at once at the time ``_counted``."""
        self._counted = time.monotonic()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By address. The address whose turn is next comes first."""
        self._number = 0
        """Waiting requests."""
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, address: str) -> None:
        """Returns when a request from this address may begin.

        Raises:
            TooManyRequests: if too many requests wait, and one of them is from this address.
            ServerUnavailable: if the server stops meanwhile.
        """
        if not self._waiting and self._take():
            return
        if self._number >= MAX_WAITING and address in self._waiting:
            raise TooManyRequests(
                f"{MAX_WAITING:,} requests without a known API key, share link or browser session are "
                "waiting, and one of them is from this address. Retry later.",
                retry_after=1,
            )
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        self._number += 1
        self._set_timer(loop)
        await turn

    def stop(self) -> None:
        """Refuses all waiting requests, because the server stops."""
        waiting, self._waiting, self._number = self._waiting, {}, 0
        for turns in waiting.values():
            for turn in turns:
                if not turn.done():
                    turn.set_exception(ServerUnavailable(_STOPPING, retry_after=2))

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is None:
            self._timer = loop.call_later(1 / self._rate, self._begin_next, loop)

    def _begin_next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        while self._waiting and self._take():
            address = next(iter(self._waiting))
            turns = self._waiting.pop(address)
            turn = turns.popleft()
            self._number -= 1
            if turns:
                self._waiting[address] = turns  # now the last address
            if not turn.done():
                turn.set_result(None)
        if self._waiting:
            self._set_timer(loop)

    def _take(self) -> bool:
        now = time.monotonic()
        self._free = min(self._burst, self._free + (now - self._counted) * self._rate)
        self._counted = now
        if self._free < 1:
            return False
        self._free -= 1
        return True


class KeyLookup:
    """Finds API keys. One thread looks up all keys that wait, with one query. Used only in the event loop.

    Args:
        pool: the pool with this thread.
        max_wait: the longest wait for the database, in seconds.
    """

    def __init__(self, pool: Pool, max_wait: float) -> None:
        self._pool, self._max_wait = pool, max_wait
        self._waiting: dict[str, asyncio.Future[bytes | None]] = {}
        """By the hash of the key. Keys that are being looked up are not in it."""
        self._is_running = False

    async def owner_of(self, key: str) -> bytes | None:
        """The project of a usable key.

        None if the key is revoked, or if the database failed: the request's own thread then finds the error.

        Raises:
            Unauthenticated: if there is no such key.
            ServerUnavailable: if the database does not answer in time.
        """
        loop = asyncio.get_running_loop()
        key_hash = hash_secret(key)
        if (answer := self._waiting.get(key_hash)) is None:
            answer = self._waiting[key_hash] = loop.create_future()
            self._start(loop)
        try:
            return await asyncio.wait_for(asyncio.shield(answer), self._max_wait)
        except TimeoutError:
            self._waiting.pop(key_hash, None)
            detail = f"The database did not answer for {self._max_wait:g} seconds (PLAYHEAD_QUEUE_SECONDS)."
            raise ServerUnavailable(f"{detail} Try again in a moment.", retry_after=2) from None

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._is_running or not self._waiting:
            return
        hashes = list(self._waiting)[:MAX_KEYS]
        answers = {key_hash: self._waiting.pop(key_hash) for key_hash in hashes}
        self._is_running = True
        self._pool.submit(
            Client(b"", b""), partial(self._look_up, answers, loop), partial(self._fail, answers)
        )

    def _look_up(
        self, answers: dict[str, asyncio.Future[bytes | None]], loop: asyncio.AbstractEventLoop, _: float
    ) -> None:
        """Runs in the thread."""
        owners: dict[str, bytes | None] | None = None
        try:
            close_old_connections()  # as at the beginning of each request
            owners = find_owners(list(answers))
        except Exception:
            log.warning("API keys could not be looked up", exc_info=True)
        with suppress(RuntimeError):  # the server has stopped
            loop.call_soon_threadsafe(self._answer, answers, owners, loop)

    def _answer(
        self,
        answers: dict[str, asyncio.Future[bytes | None]],
        owners: dict[str, bytes | None] | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        for key_hash, answer in answers.items():
            if owners is None:
                _set(answer, None)
            elif key_hash in owners:
                _set(answer, owners[key_hash])
            else:
                _set(answer, Unauthenticated(NO_SUCH_KEY))
        self._is_running = False
        self._start(loop)

    def _fail(self, answers: dict[str, asyncio.Future[bytes | None]], error: ServerUnavailable) -> None:
        for answer in answers.values():
            _set(answer, error)
        self._is_running = False


def _set(answer: "asyncio.Future[bytes | None]", result: bytes | Exception | None) -> None:
    if answer.done():
        return
    if isinstance(result, Exception):
        answer.set_exception(result)
        answer.exception()  # marks it as read, because its request may have ended
    else:
        answer.set_result(result)


class Strangers:
    """Checks the requests of strangers before they get a thread. Used only in the event loop.

    Args:
        known: the credentials that have been found. Keys that are found here are added.
        pool: the pool of the thread that looks up keys.
        max_wait: the longest wait for the database, in seconds.
    """

    def __init__(self, known: KnownClients, pool: Pool, max_wait: float) -> None:
        self._known = known
        self._lookup = KeyLookup(pool, max_wait)
        self._pace, self._check_pace = StrangerPace(), StrangerPace(CHECK_RATE, CHECK_BURST)

    def stop(self) -> None:
        """Refuses all waiting requests, because the server stops."""
        self._pace.stop()
        self._check_pace.stop()

    async def admit(
        self, path: str, authorization: bytes, credential: bytes, network: str, *, pool: str
    ) -> Unauthenticated | None:
        """Waits for the turn of a stranger's request. Returns the error if no such API key exists.

        Args:
            pool: the name of the pool that serves the request.
            credential: the result of :func:`historyapp.front.limits.credential_of`, which is not known.

        Raises:
            TooManyRequests: if too many requests wait.
            ServerUnavailable: if the database does not answer in time, or the server stops.
        """
        refusal = await self._refusal(path, authorization, credential)
        if credential not in self._known:
            await (self._check_pace if pool == CHECKS else self._pace).wait(network)
        return refusal

    async def _refusal(self, path: str, authorization: bytes, credential: bytes) -> Unauthenticated | None:
        """The error for a request of the API that has no key or an unknown one. None if it may continue."""
        if not path.startswith(API) or path.startswith(WITHOUT_KEY):
            return None
        key = bearer_token(authorization)
        if not key:
            return Unauthenticated(NO_KEY)
        if not _KEY.fullmatch(key):
            return Unauthenticated(NO_SUCH_KEY)
        try:
            owner = await self._lookup.owner_of(key)
        except Unauthenticated as error:
            return error
        if owner is not None:
            self._known.add(credential, owner)
        return None
