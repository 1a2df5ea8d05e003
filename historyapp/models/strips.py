"""Reads a session's strip of outcomes from the rows of its steps."""

from historyapp.core.lineage import Lineage
from historyapp.core.strips import StripMark, bar_ends, cut_strip, dump_strip
from historyapp.models.episodes import Episode
from historyapp.models.sessions import Session


def strip_of_part(session: Session, part: Lineage, steps: int) -> str:
    """The strip of the live history of a session or, after a rewind or in a fork, of an earlier part of it.

    Most rewinds and forks keep bars of the same width, so the session's own strip has all totals.

    Args:
        part: what was live at some time, not necessarily now.
        steps: the number of steps of ``part``.
    """
    if not part.newest or session.lineage().contains(part.newest[-1].session, part.last):
        cut = cut_strip(session.strip, session.steps, steps)
        if cut is not None:
            return cut
    return read_strip(part, steps)


def read_strip(lineage: Lineage, steps: int) -> str:
    """The strip that an append would have stored, from at most 31 steps. Empty if rows are missing.

    Args:
        steps: the number of steps of the lineage.
    """
    ends = list(bar_ends(steps))
    rows = Episode.objects.with_numbers(lineage, ends) if ends else []
    if [row.number for row in rows] != ends:
        return ""
    return dump_strip(
        [StripMark(row.total_errors, row.total_likely_failures, row.total_tokens) for row in rows]
    )
