"""Reads the candidates of a search among steps, see :mod:`historyapp.models.step_filters`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import BooleanField, Case, Q, Value, When
from django.db.models.expressions import RawSQL

from historyapp.core.lineage import Lineage, Span
from historyapp.models.episodes import Episode
from historyapp.models.fields import at_places, uuid_text
from historyapp.models.run_sql import run_sql
from historyapp.models.sql import RowPlace

_MAX_SPANS = 16
_PLACES = "SELECT session_id, anchor, number FROM historyapp_episode WHERE {} ORDER BY anchor"


class StepCandidate(NamedTuple):
    number: int
    anchor: int
    status: str
    started_at: datetime
    tool_names: list[str]
    likely_failure: str
    kind: str
    turn: int


def few_spans(lineage: Lineage) -> tuple[Span, ...]:
    """The spans of a lineage that has several, but so few that a query can name them all. Otherwise none."""
    return lineage.newest if not lineage.older and 1 < len(lineage.newest) <= _MAX_SPANS else ()


def in_few_spans(rows: Any, spans: Sequence[Span], session: str) -> Any:
    """The rows of a session that are in its spans, or that a rewind or a fork cut directly before one.

    The database checks each row that the index of the search gives: a thousand takes of a step take 0.4 ms.
    """
    inside = Q()
    for span in spans:
        if span.session == session:
            inside |= Q(anchor__range=(span.first - 1, span.last))
    # In a form without an index, so that the database reads the rows in the order of the search.
    return rows.filter(Case(When(inside, then=Value(True)), default=Value(False))) if inside else rows


def rows_in_few_spans(
    spans: Sequence[Span], session: str, steps: Sequence[StepCandidate | Episode]
) -> list[Episode]:
    """The rows of a session's live candidates, except those with a later row of the same step: a step that a
    rewind or a fork cut has it directly before a span. Two queries, however many takes a step has."""
    where, values = at_places([(span.session, span.first - 1) for span in spans[1:]], "anchor")
    cut = {number: (uuid_text(id), anchor) for id, anchor, number in run_sql(_PLACES.format(where), values)}
    places = []
    for step in steps:
        later = cut.get(step.number, (session, step.anchor))
        if later[1] < step.anchor or later == (session, step.anchor):
            places.append(RowPlace(UUID(session), step.anchor, step.number))
    return Episode.objects.at(places)


def any_of(queries: Sequence[Any], session: str) -> Any:
    """The rows of a session that any of the queries finds, in one query.

    With OR the database would sort all rows. Each of these queries stops after its first rows. PostgreSQL
    collects the anchors in an array: it runs the queries again for each row of an IN where its statistics
    say that the table is empty, as they do for some minutes after a first import.
    """
    statements, values = list[str](), list[Any]()
    for number, query in enumerate(queries):
        statement, own = query.values("anchor").query.sql_with_params()
        statements.append(f"SELECT anchor FROM ({statement}) AS part_{number}")  # noqa: S608 made by Django
        values += own
    anchors = " UNION ALL ".join(statements)
    collected = f"= ANY(ARRAY({anchors}))" if connection.vendor == "postgresql" else f"IN ({anchors})"
    column = f"{connection.ops.quote_name(Episode._meta.db_table)}.anchor"
    is_found = RawSQL(f"{column} {collected}", values, output_field=BooleanField())  # noqa: S611 made by Django
    return Episode.objects.filter(is_found, session_id=UUID(session))
