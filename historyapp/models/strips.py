"""Reads a session's strip of outcomes from the rows of its steps."""

from historyapp.core.lineage import Lineage
from historyapp.core.strips import StripMark, bar_ends, dump_strip
from historyapp.models.episodes import Episode


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
