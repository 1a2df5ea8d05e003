"""Limits the contexts of the model calls that wait for a provider.

A call keeps its context until it ends, and the bytes that it sends: about three times the context. Providers
may take minutes to answer.
"""

import threading
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from historyapp.wire.problems import ServerUnavailable, TooManyRequests

SMALL = 1 << 20
"""Bytes of a context in memory that do not count. A context of 200,000 tokens has about 800,000."""
MAX_TOTAL, OF_PROJECT = 1 << 27, 1 << 26
"""Bytes of all larger contexts, and of those of one project. A single one may be larger; for other projects
it counts as ``OF_PROJECT``."""
FEW, SPARE = 1 << 24, 1 << 27
"""A project whose contexts take at most ``FEW`` bytes may also use the ``SPARE`` bytes: they are left while
others use all of ``MAX_TOTAL``. A context of a million tokens has 4 MB, with an emoji in it 16 MB."""
RETRY_SECONDS = 5


class CallMemory:
    """The contexts of this process."""

    def __init__(self) -> None:
        self._bytes = Counter[Hashable]()
        self._lock = threading.Lock()

    @contextmanager
    def held(self, project: Hashable, size: int) -> Iterator[None]:
        """Counts a context of ``size`` bytes.

        Raises:
            TooManyRequests: when the project has too many large contexts already.
            ServerUnavailable: when all projects together do.
        """
        if size <= SMALL:
            yield
            return
        self._add(project, size)
        try:
            yield
        finally:
            with self._lock:
                self._bytes[project] -= size
                if not self._bytes[project]:
                    del self._bytes[project]

    def check(self, project: Hashable) -> None:
        """Refuses a call of a project whose contexts exceed its limit, before its own context is built, which
        takes more memory. Only a single context can exceed it, and providers accept none that is so large.

        Raises:
            TooManyRequests: when they do.
        """
        if self._bytes.get(project, 0) > OF_PROJECT:
            raise TooManyRequests(_refusal("of this project", OF_PROJECT), retry_after=RETRY_SECONDS)

    def _add(self, project: Hashable, size: int) -> None:
        with self._lock:
            own = self._bytes.get(project, 0)
            if own and own + size > OF_PROJECT:
                raise TooManyRequests(_refusal("of this project", OF_PROJECT), retry_after=RETRY_SECONDS)
            total = sum(min(held, OF_PROJECT) for held in self._bytes.values())
            limit = MAX_TOTAL + SPARE if own + size <= FEW else MAX_TOTAL
            if total + min(size, OF_PROJECT) > limit:
                raise ServerUnavailable(_refusal("of this server", limit), retry_after=RETRY_SECONDS)
            self._bytes[project] += size


def _refusal(whose: str, limit: int) -> str:
    return (
        f"The contexts of model calls {whose} that have not ended take more than {limit:,} bytes together. "
        "Wait until one has ended, then retry, or call with a smaller `max_tokens`."
    )


CALL_MEMORY = CallMemory()
