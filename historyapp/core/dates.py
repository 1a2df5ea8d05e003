"""Unknown times, and durations in words.

Some transcripts contain no times, and an import must not invent any. The log stores a fixed moment
for them, so that its columns stay comparable and old databases need no change.
"""

from datetime import UTC, datetime, timedelta

UNDATED = datetime(1970, 1, 1, tzinfo=UTC)
"""The log stores this for an unknown time. No agent ran then."""


def known_time(moment: datetime | None) -> datetime | None:
    """The time, or None if it is not known."""
    return None if moment == UNDATED else moment


def milliseconds_of(moment: datetime) -> int:
    """A time as milliseconds since 1970."""
    return int(moment.timestamp() * 1000)


_newest_moment = (UNDATED, UNDATED.isoformat())
"""The last formatted time and its text. The entries of one append have the same time."""


def iso_text(moment: datetime) -> str:
    """ISO 8601, with the zone that the time has."""
    global _newest_moment
    known, text = _newest_moment
    if known is not moment:
        text = moment.isoformat()
        _newest_moment = moment, text
    return text


def utc_text(moment: datetime) -> str:
    """A time in UTC as JSON has it, to the millisecond: 2026-11-25T19:30:00.250Z."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration_text(duration: timedelta) -> str:
    """A duration in words: 340 ms, 2.1 s, 3 min 20 s, 2 h 5 min, 5 days 20 h.

    ``static/js/times.js`` does the same.
    """
    seconds = max(0.0, duration.total_seconds())
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, seconds_left = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {seconds_left} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days:,} day{'s' * (days > 1)} {hours} h"
