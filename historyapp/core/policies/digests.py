"""Adds the summaries of steps that are too old for notes to a context of the ``budgeted`` policy."""

from itertools import islice

from historyapp.core.policies.assembly import Assembly
from historyapp.core.policies.base import StepOutline, visible_summaries
from historyapp.core.policies.parts import summary_part

DIGESTS = 0.15
"""Share of the room for summaries of steps before the outlined ones, if there are any."""
MAX_DIGESTS = 100


def add_digests(assembly: Assembly, first_outlined: StepOutline, room: int) -> None:
    """Adds summaries of the steps before the outlined ones, the newest first, within their share of the room.

    They change only when the outlined steps begin later or when new summaries are made. Steps between them
    are listed as left out.

    Args:
        room: the tokens for inputs, notes and steps.
    """
    room = int(DIGESTS * max(0, room))
    first, end = first_outlined.number, first_outlined.first_position
    reason = f"older than step {first}, the first step that was considered"
    for summary in islice(visible_summaries(assembly.past.summaries_newest_first, end), MAX_DIGESTS):
        if summary.text.strip():
            part = summary_part(summary, assembly.meter)
            if part.segment.tokens > room:
                break
            room -= part.segment.tokens
            assembly.add(part)
            assembly.leave_out(summary.last_step + 1, first - 1, reason)
            first = summary.first_step
    assembly.leave_out(1, first - 1, reason)
