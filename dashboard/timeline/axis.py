"""The horizontal positions of the timeline's steps: side by side, or by the times at which they ran."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Literal, NamedTuple

from dashboard.timeline.shares import StepShare

MAX_PAUSE = 0.02
"""A longer pause, as a share of the time in which steps ran or short pauses lasted, is drawn this long."""
MIN_PAUSE = timedelta(seconds=30)
"""Pauses up to this are never shortened."""
MIN_WIDTH = 0.0015
"""Width of the bar of a step that took no time."""
TICKS = 8
"""The maximum number of times below the axis; half as many if they need their days."""
_SHORT = timedelta(minutes=20)
"""If less than this is drawn, times have seconds."""
_ROUND = [
    *(86_400 * days for days in (28, 14, 7, 1)),
    *(3_600 * hours for hours in (12, 6, 3, 2, 1)),
    *(60 * minutes for minutes in (30, 20, 15, 10, 5, 2, 1)),
    *(30, 20, 15, 10, 5, 2, 1),
]
"""Seconds between round times, the roundest first."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Place(NamedTuple):
    """Where a bar begins and ends, from 0 at the left edge to 1 at the right one."""

    start: float
    end: float


class Pause(NamedTuple):
    """A pause that is drawn shorter than it was."""

    place: Place
    length: timedelta
    share: StepShare
    """What follows it."""


class Tick(NamedTuple):
    """A round time and where it is, from 0 to 1."""

    place: float
    moment: datetime
    form: Literal["clock", "minute", "stamp"]
    """How it is shown, see ``js/times.js``: to the second, to the minute, or with its day."""

    @property
    def utc(self) -> str:
        """The text without scripts."""
        moment = self.moment
        if self.form == "stamp":
            return f"{moment.day} {moment:%b, %H:%M}"
        return f"{moment:%H:%M:%S}" if self.form == "clock" else f"{moment:%H:%M}"


class _Stretch(NamedTuple):
    """A time that the axis shows, and from where to where it is drawn."""

    begin: datetime
    end: datetime
    start: timedelta
    stop: timedelta
    share: StepShare | None = None
    """The steps that ran in it; None for a gap between steps."""
    pause_before: StepShare | None = None
    """If it is a pause that is drawn shorter, the steps that follow it."""


def places_by_step(shares: Sequence[StepShare], first: int, slots: int) -> list[Place]:
    """All steps with the same width; the first place is that of step ``first``."""
    return [Place((share.first - first) / slots, (share.last - first + 1) / slots) for share in shares]


def places_by_time(shares: Sequence[StepShare]) -> tuple[list[Place], list[Pause]]:
    """Each step at the time when it ran; empty lists if the times are unknown or all the same."""
    places, pauses, stretches = list[Place](), list[Pause](), _stretches(shares)
    for stretch in stretches:
        begin, end = (at / stretches[-1].stop for at in (stretch.start, stretch.stop))
        if stretch.share:
            start = min(begin, 1 - MIN_WIDTH)
            places.append(Place(start, max(end, start + MIN_WIDTH)))
        elif stretch.pause_before:
            pauses.append(Pause(Place(begin, end), stretch.end - stretch.begin, stretch.pause_before))
    return places, pauses


def ticks_by_time(shares: Sequence[StepShare]) -> list[Tick]:
    """Round times at the places that :func:`places_by_time` gives them; empty without such places.

    Each of a few equal parts of the width has at most one, in its first half, so that labels have room. A
    pause that is drawn shorter has none.
    """
    if not (stretches := _stretches(shares)):
        return []
    total = stretches[-1].stop
    is_long = stretches[-1].end - stretches[0].begin > timedelta(hours=20)
    form: Literal["clock", "minute", "stamp"] = "clock" if total < _SHORT else "minute"
    parts = TICKS // 2 if is_long else TICKS
    ticks = list[Tick]()
    for part in range(parts):
        low, high = total * part / parts, total * (part + 0.5) / parts
        if found := _roundest(stretches, low, high, 1 if form == "clock" else 60):
            ticks.append(Tick(found[0] / total, found[1], "stamp" if is_long else form))
    return ticks


def _roundest(
    stretches: Sequence[_Stretch], low: timedelta, high: timedelta, unit: int
) -> tuple[timedelta, datetime] | None:
    """The roundest moment that is drawn between two places, and its place. None if all of it is a pause, or
    if no multiple of ``unit`` seconds is there."""
    found: tuple[int, timedelta, datetime] | None = None
    for stretch in stretches:
        if stretch.stop < low or stretch.start > high or stretch.pause_before:
            continue
        first = stretch.begin + max(low - stretch.start, timedelta())
        last = stretch.begin + (min(high, stretch.stop) - stretch.start)
        for seconds in (each for each in _ROUND if each >= unit and (found is None or each > found[0])):
            wait = (_EPOCH - first) % timedelta(seconds=seconds)
            if wait <= last - first:  # otherwise the moment may be after the year 9999
                moment = first + wait
                found = seconds, stretch.start + (moment - stretch.begin), moment
                break
    return found and found[1:]


def _stretches(shares: Sequence[StepShare]) -> list[_Stretch]:
    """What the axis shows, in order; empty if the times are unknown or all the same."""
    times = [(share.begin, share.end) for share in shares if share.begin and share.end]
    if len(times) < len(shares) or not shares:
        return []
    spans = _in_order(times)
    gaps = [begin - ended for (_, ended), (begin, _) in pairwise(spans)]
    active = sum((end - begin for begin, end in spans), timedelta())
    active += sum((gap for gap in gaps if gap <= MIN_PAUSE), timedelta())
    max_pause = max(MIN_PAUSE, MAX_PAUSE * active)
    stretches, elapsed, ended = list[_Stretch](), timedelta(), spans[0][0]
    for share, (begin, end) in zip(shares, spans, strict=True):
        shown = min(begin - ended, max_pause)
        if shown:
            pause_before = share if shown < begin - ended else None
            stretches.append(_Stretch(ended, begin, elapsed, elapsed + shown, None, pause_before))
        elapsed, ended = elapsed + shown + (end - begin), end
        stretches.append(_Stretch(begin, end, elapsed - (end - begin), elapsed, share))
    return stretches if elapsed else []


def _in_order(times: Sequence[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    """The spans without overlaps, because a clock may have been set back."""
    spans: list[tuple[datetime, datetime]] = []
    latest = times[0][0]
    for begin, end in times:
        begin = max(begin, latest)
        latest = max(begin, end)
        spans.append((begin, latest))
    return spans
