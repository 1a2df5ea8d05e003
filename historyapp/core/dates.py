"""Entries without a time: a transcript that holds no times has none, and an import must not invent them.

The log stores a fixed moment for them, so that its columns stay comparable and old databases need no change.
"""

from datetime import UTC, datetime

UNDATED = datetime(1970, 1, 1, tzinfo=UTC)
"""Stands in the log for a time that nobody knows. No agent ran then."""


def known(moment: datetime | None) -> datetime | None:
    """The time, or None where it is not known."""
    return None if moment == UNDATED else moment
