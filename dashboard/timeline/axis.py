"""The horizontal positions of the timeline's steps: side by side, or by the times at which they ran."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from dashboard.timeline.shares import StepShare

MAX_PAUSE = 0.02
"""A longer pause, as a share of the time in which steps ran or short pauses lasted, is drawn this long."""
MIN_PAUSE = timedelta(seconds=30)
"""Pauses up to this are never shortened."""
MIN_WIDTH = 0.0015
"""Width of the bar of a step that took no time."""


class Place(NamedTuple):
    """Where a bar begins and ends, from 0 at the left edge to 1 at the right one."""

    start: float
    end: float


class Pause(NamedTuple):
    """A pause that is drawn shorter than it was."""

    place: Place
    length: timedelta


def places_by_step(shares: Sequence[StepShare], first: int, slots: int) -> list[Place]:
    """All steps with the same width; the first place is that of step ``first``."""
    return [Place((share.first - first) / slots, (share.last - first + 1) / slots) for share in shares]


def places_by_time(shares: Sequence[StepShare]) -> tuple[list[Place], list[Pause]]:
    """Each step at the time when it ran; empty lists if the times are unknown or all the same."""
    times = [(share.begin, share.end) for share in shares if share.begin and share.end]
    if len(times) < len(shares) or not shares:
        return [], []
    spans = _in_order(times)
    gaps = [begin - ended for (_, ended), (begin, _) in pairwise(spans)]
    active = sum((end - begin for begin, end in spans), timedelta())
    active += sum((gap for gap in gaps if gap <= MIN_PAUSE), timedelta())
    max_pause = max(MIN_PAUSE, MAX_PAUSE * active)
    total = active + sum((min(gap, max_pause) for gap in gaps if gap > MIN_PAUSE), timedelta())
    if not total:
        return [], []
    places, pauses, elapsed = list[Place](), list[Pause](), timedelta()
    for (begin, end), gap in zip(spans, [timedelta(), *gaps], strict=True):
        shown = min(gap, max_pause)
        if gap > max_pause:
            pauses.append(Pause(Place(elapsed / total, (elapsed + shown) / total), gap))
        start = min((elapsed + shown) / total, 1 - MIN_WIDTH)
        elapsed += shown + (end - begin)
        places.append(Place(start, max(elapsed / total, start + MIN_WIDTH)))
    return places, pauses


def _in_order(times: Sequence[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    """The spans without overlaps, because a clock may have been set back."""
    spans: list[tuple[datetime, datetime]] = []
    latest = times[0][0]
    for begin, end in times:
        begin = max(begin, latest)
        latest = max(begin, end)
        spans.append((begin, latest))
    return spans
