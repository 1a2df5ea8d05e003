"""How a run ended, how long it took and how many files it names, for the head of a session's pages.

These figures are counted from the entries, so only the overview has them at once. The other pages load them.
"""

from dataclasses import dataclass
from datetime import timedelta

from historyapp.core.overview.findings import Ending
from historyapp.services.overview import RunOverview


@dataclass(frozen=True, slots=True)
class RunHead:
    """The counted figures of a run."""

    ending: Ending
    is_running: bool
    total_time: timedelta | None
    """None if unknown."""
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
    times = (("model", figures.model_time), ("tools", figures.tool_time), ("waiting", figures.waiting_time))
    return RunHead(
        ending=overview.ending,
        is_running=overview.ending.kind == "running",
        total_time=overview.total_time,
        times=[(name, time) for name, time in times if time >= 1_000],
        files=len(figures.files),
        more_files=bool(figures.more_files or figures.unnamed_edits),
    )
