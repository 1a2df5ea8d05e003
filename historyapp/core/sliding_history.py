"""Writes the sliding-window history as text: summaries, a blank line, the newest steps in detail.

An older step without a summary is shown in one line, or listed with its number: nothing is cut silently.
The history is read from its newest end, so the time does not depend on the session's length.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from historyapp.core.policies.base import Past, SummaryLike, visible_summaries
from historyapp.core.rendering import detailed_form, short_form
from historyapp.core.text import preview

MAX_DETAILED = 10_000
"""The maximum number of steps in detail, because the text is built in memory."""
MAX_SUMMARIES = 1000
MAX_LINES = 100
"""The maximum number of older steps without a summary that get a line each."""
MAX_COMPARED = 100_000_000
"""Characters of summaries in which key points are searched, about a second. The key points of further
summaries are all shown."""
_MAX_LINE = 300


def sliding_history(past: Past, window: int) -> str:
    """The newest ``window`` steps in detail, and summaries or lines for all older ones."""
    last = past.steps - min(window, MAX_DETAILED)
    newest = list(past.episodes_newest_first(first=max(1, last + 1)))[::-1]
    older = _Older(past)
    if last > 0:
        older.add(last, newest[0].first_position)
    parts = ["\n".join(older.lines[::-1])]
    for episode in newest:
        form = detailed_form(episode).rstrip()
        parts.append(f"### Step {episode.number}:{'' if form.startswith(chr(10)) else ' '}{form}")
    return "\n\n".join(filter(None, parts))


@dataclass
class _Older:
    """The lines about the steps before the window, the newest first."""

    past: Past
    lines: list[str] = field(default_factory=list)
    _single: int = 0
    _compared: int = 0

    def add(self, last: int, end: int) -> None:
        """Steps 1 to ``last``; step ``last + 1`` begins at the position ``end``."""
        for count, summary in enumerate(visible_summaries(self.past.summaries_newest_first, end)):
            if count == MAX_SUMMARIES:
                self.lines.append(f"{_steps(1, last)}: summarised, but there are too many summaries to show.")
                return
            self._without_summary(summary.last_step + 1, last)
            steps = _steps(summary.first_step, summary.last_step)
            points = [f"- {point}" for point in self._new_points(summary)]
            self.lines.append("\n".join((f"{steps}: {summary.text}".rstrip(), *points)))
            last = summary.first_step - 1
        self._without_summary(1, last)

    def _new_points(self, summary: SummaryLike) -> Sequence[str]:
        """The key points that the text does not contain."""
        self._compared += len(summary.text) * len(summary.key_points)
        if self._compared > MAX_COMPARED:
            return summary.key_points
        return [point for point in summary.key_points if point not in summary.text]

    def _without_summary(self, first: int, last: int) -> None:
        shown = min(last - first + 1, MAX_LINES - self._single)
        if shown > 0:
            for episode in self.past.episodes_newest_first(last, last - shown + 1):
                self.lines.append(f"Step {episode.number}: {preview(short_form(episode), _MAX_LINE)}")
            self._single += shown
            last -= shown
        if first <= last:
            self.lines.append(f"{_steps(first, last)}: not summarised yet, and too many to show here.")


def _steps(first: int, last: int) -> str:
    return f"Step {first}" if first == last else f"Steps {first} to {last}"
