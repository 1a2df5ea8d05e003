"""Ends the parsing of a file that takes far more processor time than its size explains."""

import time
from collections.abc import Iterator

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import Operation, Source

BASE_SECONDS = 20.0
SECONDS_PER_MB = 2.0
"""Real transcripts take less than a tenth of it, also on a slow machine."""


def with_time_limit(operations: Iterator[Operation], source: Source) -> Iterator[Operation]:
    """The operations of a file. The thread's processor time for parsing counts, no other time does.

    The time is checked after each operation, so one operation that never ends is not noticed. Patterns take
    linear time (docs/security.md), so none does.

    Raises:
        UnreadableTranscript: when parsing took ``BASE_SECONDS`` and ``SECONDS_PER_MB`` for each MB read.
    """
    used, begun = 0.0, time.thread_time()
    for operation in operations:
        used += time.thread_time() - begun
        if used > BASE_SECONDS:
            allowed = BASE_SECONDS + SECONDS_PER_MB * source.stream.tell() / 1e6
            if used > allowed:
                raise UnreadableTranscript(
                    f"Reading the file took more than {allowed:.0f} s of processor time and was stopped. "
                    "What came before is kept. Split the file and import the parts."
                )
        yield operation
        begun = time.thread_time()
