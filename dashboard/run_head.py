"""How a run ended, how long it took and how many files it names, for the head of a session's pages.

These figures are counted from the entries, so only the overview has them at once. The other pages load them.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from historyapp.core.overview.findings import Ending
from historyapp.services.overview import RunOverview

MIN_SHOWN = 1_000
"""The milliseconds from which a part of the time is shown."""
_MIN_SHARE = 0.01
"""The share of the total from which the time outside the conversation is shown."""


class IdleTime(NamedTuple):
    """A part of the total in which nobody worked on the run or was asked to."""

    name: str
    milliseconds: int


@dataclass(frozen=True, slots=True)
class RunHead:
    """The counted figures of a run."""

    ending: Ending
    is_running: bool
    active_time: timedelta | None
    """The time that the parts add up to; None if unknown."""
    total_time: timedelta | None
    """The total, with the idle time; None without idle time."""
    times: list[tuple[str, int]]
    """The parts of the time in milliseconds, by name; without those of less than a second."""
    files: int
    more_files: bool
    """Whether the run names more files than are counted, or changed files that it does not name."""


def run_head(overview: RunOverview) -> RunHead | None:
    """The figures of the head; None if the run has no steps or not all of them are counted yet."""
    figures = overview.figures
    if not figures.steps or not overview.counted.is_complete:
        return None
    times = (
        ("model", figures.model_time),
        ("tools", figures.tool_time),
        ("waiting", figures.waiting_time),
        ("no result", figures.unanswered_time),
    )
    return RunHead(
        ending=overview.ending,
        is_running=overview.ending.kind == "running",
        active_time=overview.active_time,
        total_time=overview.total_time if idle_times(overview) else None,
        times=[(name, time) for name, time in times if time >= MIN_SHOWN],
        files=len(figures.files),
        more_files=bool(figures.more_files or figures.unnamed_edits),
    )


def idle_times(overview: RunOverview) -> list[IdleTime]:
    """The idle parts of the total that are long enough to be named."""
    total = (overview.total_time or timedelta(0)) / timedelta(milliseconds=1)
    outside = overview.outside_time if overview.outside_time >= _MIN_SHARE * total else 0
    parts = (
        IdleTime("until it was continued after a rewind", overview.rewound_time),
        IdleTime("before or after the conversation", outside),
    )
    return [part for part in parts if part.milliseconds >= MIN_SHOWN]
