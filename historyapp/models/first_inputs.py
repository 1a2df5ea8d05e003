"""Reads the first inputs of many sessions together."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from historyapp.core.json import load_dumped
from historyapp.core.lineage import Span
from historyapp.models.entries import spans_between
from historyapp.models.fields import read_text, session_value
from historyapp.models.long_rows import long_rows
from historyapp.models.sessions import Session

MAX_SESSIONS = 100
"""The maximum number of sessions of one statement."""
_MAX_SPANS = 4
"""A session's first ranges that are searched. SQLite combines at most 500 SELECTs."""
_MAX_POSITIONS = 1_000
"""The first live positions of a session that are searched for inputs."""
_INPUTS = (
    "SELECT * FROM (SELECT {number} AS number, position, body FROM historyapp_entry "
    "WHERE session_id = %s AND position BETWEEN %s AND %s AND kind = 'model_input' "
    "ORDER BY position LIMIT {limit}) AS inputs_{span}"
)


class FirstInput(NamedTuple):
    session: UUID
    position: int
    body: dict[str, Any]


def first_inputs(sessions: Sequence[Session], limit: int) -> Iterator[FirstInput]:
    """Live inputs at the beginning of at most :data:`MAX_SESSIONS` sessions, in any order, one at a time.

    Only the first 1,000 live positions are searched. In sessions with many rewinds, the first own positions
    are searched, live or not.

    Args:
        limit: the maximum number of inputs of each range of positions.
    """
    selects, values = list[str](), list[Any]()
    for number, session in enumerate(sessions):
        for span in _first_spans(session):
            selects.append(_INPUTS.format(number=number, limit=limit, span=len(selects)))
            values += [session_value(span.session), span.first, span.last]
    statement = " UNION ALL ".join(selects)
    # SQLite would sort the rows with their texts. Without an order it reads only one at a time.
    rows = long_rows(statement, values, "number, position", keep_open=True) if selects else iter(())
    for number, position, body in rows:
        yield FirstInput(sessions[number].pk, position, load_dumped(read_text(body)))


def _first_spans(session: Session) -> Iterator[Span]:
    lineage = session.lineage()
    if lineage.older:  # its first ranges are in blocks, which take statements of their own
        own = session.fork_position + 1
        if own <= session.head:
            yield Span(str(session.pk), own, min(session.head, own + _MAX_POSITIONS - 1))
        return
    left = _MAX_POSITIONS
    for span in islice(spans_between(lineage), _MAX_SPANS):
        if left > 0:
            yield Span(span.session, span.first, min(span.last, span.first + left - 1))
        left -= len(span)
