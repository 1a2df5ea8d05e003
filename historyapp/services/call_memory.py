"""Limits the contexts and options of the model calls that wait for a provider.

A call keeps both until it ends, and the bytes that it sends: about three times the context. Providers may
take minutes to answer.
"""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from historyapp.core.memory_shares import MemoryShares, NoRoom
from historyapp.wire.busy import busy_error
from historyapp.wire.problems import ServerUnavailable

SMALL = 1 << 20
"""Bytes in memory of a context and options that do not count. A context of 200,000 tokens has
about 800,000."""
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
        self.shares = MemoryShares(MAX_TOTAL, of_owner=OF_PROJECT, few=FEW, spare=SPARE)

    @contextmanager
    def held(self, project: Hashable, size: int) -> Iterator[None]:
        """Counts a context and options of ``size`` bytes.

        Raises:
            TooManyRequests: when the project has too many large contexts already.
            ServerUnavailable: when all projects together do.
        """
        if size <= SMALL:
            yield
            return
        try:
            self.shares.add(project, size)
        except NoRoom as error:
            raise _no_room(is_own=error.is_own, limit=error.limit) from None
        try:
            yield
        finally:
            self.shares.give_back(project, size)

    def check(self, project: Hashable) -> None:
        """Refuses a call of a project whose contexts exceed its limit, before its own context is built, which
        takes more memory. Only a single context can exceed it, and providers accept none that is so large.

        Raises:
            TooManyRequests: when they do.
        """
        if self.shares.of(project) > OF_PROJECT:
            raise _no_room(is_own=True, limit=OF_PROJECT)


def _no_room(*, is_own: bool, limit: int) -> ServerUnavailable:
    detail = (
        f"The contexts and options of model calls of this {{whose}} that have not ended take more than "
        f"{limit:,} bytes of memory together. Wait until one has ended, then retry, or call with a smaller "
        "`max_tokens` or fewer options."
    )
    return busy_error(detail, is_own=is_own, retry_after=RETRY_SECONDS)


CALL_MEMORY = CallMemory()
