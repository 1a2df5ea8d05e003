"""How many inputs lie between some places of a history, counted in the index of inputs."""

from collections.abc import Sequence
from uuid import UUID

from historyapp.core.lineage import Lineage
from historyapp.models.fields import uuid_value
from historyapp.models.sql import fetch_all

MOST_COUNTED = 20
"""Inputs between two places that are counted: a history of many inputs costs as much as one of few."""
_COUNT = (
    "SELECT {place}, (SELECT COUNT(*) FROM (SELECT 1 FROM historyapp_entry WHERE session_id = %s"
    " AND kind = 'model_input' AND position BETWEEN {first} AND {last} LIMIT {most}) AS counted)"
)
_AT_ONCE = 400
"""Parts of one query. SQLite takes 500."""


def count_inputs(lineage: Lineage, places: Sequence[tuple[int, int]]) -> list[int]:
    """The live inputs after one position and before another one, for each of some pairs of positions.

    At most :data:`MOST_COUNTED` for each part of a span. Without bodies: channels are not told apart.
    """
    counts = [0] * len(places)
    parts = [
        (place, span)
        for place, (after, before) in enumerate(places)
        if before - after > 1
        for span in lineage.between(after + 1, before - 1)
    ]
    for start in range(0, len(parts), _AT_ONCE):
        some = parts[start : start + _AT_ONCE]
        queries = [
            _COUNT.format(place=place, first=span.first, last=span.last, most=MOST_COUNTED)
            for place, span in some
        ]
        sessions = [uuid_value(UUID(span.session)) for _, span in some]
        for place, count in fetch_all(" UNION ALL ".join(queries), sessions):
            counts[place] += count
    return counts
