"""The newest steps in full, before them summaries of ranges (SEMANTICS C).

A step that is neither in the window nor summarised is shown in full while the budget lasts, and listed where
it does not: nothing falls between the summaries and the window.
"""

from collections.abc import Iterator
from itertools import chain

from historyapp.core.budget import RequestMeter
from historyapp.core.episodes import Episode
from historyapp.core.manifest import Context, Message, Segment
from historyapp.core.policies.assembly import Assembly, Piece
from historyapp.core.policies.base import NO_ASK, Ask, Past, StandIn
from historyapp.core.policies.units import newest_first, position_of
from historyapp.core.settings import SessionSettings

REACH = 512
"""Positions that are searched for summaries at once."""
PATIENCE = 8
"""How many parts that do not fit are looked past, for smaller ones before them."""


class SlidingWindow:
    name = "sliding_window"

    def choose(
        self, past: Past, settings: SessionSettings, meter: RequestMeter, ask: Ask = NO_ASK
    ) -> Context:
        """The newest turn is pinned; then come the first input, the window, and what was before it."""
        assembly = Assembly.begin(self.name, past, settings.max_tokens, meter, ask)
        first = next(past.inputs(0), None)
        task = [assembly.piece(first)] if first else []
        parts = _parts(assembly, past, settings.window_size)
        newest = [piece for piece in [next(parts, None)] if piece]
        # What a person asked for first is what all steps are about.
        rest = (piece for piece in parts if not task or piece.position != task[0].position)
        ordered = chain(newest, (piece for piece in task if piece not in newest), rest)
        whole = assembly.fill(ordered, past, patience=PATIENCE)
        return assembly.context(stable=len(assembly.pieces) if whole else 0)


def _parts(assembly: Assembly, past: Past, window: int) -> Iterator[Piece]:
    """The window's turns, then summaries and the turns between them, newest first."""
    first_step = max(1, past.steps - window + 1)
    until = None
    for unit in newest_first(past):
        if isinstance(unit, Episode) and unit.number < first_step:
            break
        yield assembly.piece(unit)
        until = position_of(unit)
    else:
        return
    yield from _before(assembly, past, first_step - 1, until)


def _before(assembly: Assembly, past: Past, last_step: int, until: int | None) -> Iterator[Piece]:
    for summary in _standing(past, until):
        between = last_step if last_step > summary.last_step else 0
        turns = newest_first(past, between, after=summary.last_position, until=until)
        yield from map(assembly.piece, turns)
        yield _summary(assembly, summary)
        last_step, until = summary.first_step - 1, summary.first_position
    yield from map(assembly.piece, newest_first(past, last_step, until=until))


def _standing(past: Past, until: int | None) -> Iterator[StandIn]:
    """Summaries that end before a position, newest first, none over another; the one of more steps wins."""
    end = (until or 1) - 1
    while end > 0:
        start = max(1, end - REACH + 1)
        found = sorted(past.summaries(start, end), key=lambda s: (s.last_position, s.level, str(s.id)))
        for summary in reversed(found):
            if summary.last_position <= end:
                yield summary
                end = summary.first_position - 1
        end = min(end, start - 1)


def _summary(assembly: Assembly, summary: StandIn) -> Piece:
    """A summary is told by a user: it repeats what tools returned, which must not speak as the system."""
    first, last = summary.first_step, summary.last_step
    steps = f"step {first}" if first == last else f"steps {first} to {last}"
    messages = [Message(role="user", content=f"Summary of {steps}:\n{summary.text}")]
    segment = Segment(
        source="step",
        step=first,
        last_step=last,
        form="summarised",
        summary=str(summary.id),
        tokens=assembly.meter.messages(messages),
    )
    return Piece(summary.first_position, messages, segment)


SLIDING_WINDOW = SlidingWindow()
