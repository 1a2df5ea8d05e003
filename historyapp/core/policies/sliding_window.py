"""The newest steps in full, and summaries of ranges before them.

A step that is neither in the window nor summarised is shown in full if the budget allows it, and listed as
left out otherwise. So no step is lost between the summaries and the window.
"""

from collections.abc import Iterator
from heapq import merge
from itertools import chain

from historyapp.core.budget import RequestMeter
from historyapp.core.context import Context
from historyapp.core.conversation import InputMessage
from historyapp.core.episodes import Episode
from historyapp.core.policies.assembly import Assembly
from historyapp.core.policies.base import (
    NO_EXTRAS,
    Past,
    RequestExtras,
    SummaryLike,
    Unit,
    unit_position,
    visible_summaries,
)
from historyapp.core.policies.parts import ContextPart, summary_part
from historyapp.core.settings import SessionSettings

PATIENCE = 4
"""The number of parts that do not fit and are skipped, because older ones may be smaller."""


class SlidingWindow:
    name = "sliding_window"

    def choose(
        self, past: Past, settings: SessionSettings, meter: RequestMeter, extras: RequestExtras = NO_EXTRAS
    ) -> Context:
        """The newest turn is pinned. Then come the first input, the rest of the window, and older parts."""
        assembly = Assembly.begin(self.name, past, settings.budget(), meter, extras)
        first = past.first_input
        task = [assembly.part(first)] if first else []
        parts = _parts(assembly, past, settings.window_size)
        newest = [part for part in [next(parts, None)] if part]
        # The first input comes early, because it usually states the task.
        other_parts = (part for part in parts if not task or part.position != task[0].position)
        ordered = chain(newest, (part for part in task if part not in newest), other_parts)
        all_fit = assembly.fill(ordered, past, patience=PATIENCE)
        return assembly.context(stable=len(assembly.parts) if all_fit else 0)


def _parts(assembly: Assembly, past: Past, window: int) -> Iterator[ContextPart]:
    """The window's turns, then summaries and the turns between them, newest first, with every input.

    A summary replaces the steps of its range, but not the inputs between them.
    """
    for part in merge(_blocks(past, window), past.inputs_newest_first(), key=_end, reverse=True):
        if isinstance(part, (Episode, InputMessage)):
            yield assembly.part(part)
        else:
            yield summary_part(part, assembly.meter)


def _blocks(past: Past, window: int) -> Iterator[Episode | SummaryLike]:
    """The window's steps, then summaries that do not overlap, and the steps between them, newest first."""
    last = past.steps - window
    end = 0
    for episode in past.episodes_newest_first(first=max(1, last + 1)):
        yield episode
        end = episode.first_position
    if last < 1:
        return
    for summary in visible_summaries(past.summaries_newest_first, end):
        yield from past.episodes_newest_first(last, summary.last_step + 1)
        yield summary
        last = summary.first_step - 1
    yield from past.episodes_newest_first(last)


def _end(part: Unit | SummaryLike) -> int:
    """The position of a part; of a summary, the end of its range."""
    return unit_position(part) if isinstance(part, (Episode, InputMessage)) else part.last_position


SLIDING_WINDOW = SlidingWindow()
