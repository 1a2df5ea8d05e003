"""The log's table, and reading the entries of a lineage."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from django.db import models

from historyapp.core import entries as core
from historyapp.core.errors import Conflict
from historyapp.core.lineage import Lineage, Span
from historyapp.models.fields import JSONText, PackedJSON, session_value
from historyapp.models.long_rows import long_models
from historyapp.models.sessions import RARE_KINDS, Session

Rows = TypeVar("Rows", bound="models.QuerySet[Any]")
_SPANS_AT_ONCE, _MAX_SPANS = 20, 60  # spans of one query; more if many entries are read
_FIRST_PAGE, _MAX_PAGE = 16, 1024  # rows
_SHORT = 1000  # entries, which are cheap to sort


class EntryQuerySet(models.QuerySet["Entry"]):
    """Only reads. Entries are added by ``historyapp.services.append`` and never change."""

    def live(
        self,
        lineage: Lineage,
        *,
        after: int = 0,
        before: int | None = None,
        kinds: Iterable[str] = (),
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Iterator["Entry"]:
        """The live entries between two positions (both excluded), in order of position.

        A caller may stop at any entry: at most 16 MB and one entry more are read in advance.

        Args:
            limit: the maximum number of entries. The cost does not grow with the session's length.
        """
        spans = spans_between(lineage, after, before, newest_first=newest_first)
        if limit is None:
            spans = _in_short_spans(spans, newest_first=newest_first)
        selected, rows = list(kinds), self
        if selected:  # a single kind is compared as in the condition of its index
            rows = self.filter(kind=selected[0]) if len(selected) == 1 else self.filter(kind__in=selected)
        # Without a condition on kinds, the spans of ``limit`` entries are enough.
        enough = None if selected else limit
        for batch in span_batches(spans, max(_SPANS_AT_ONCE, min(limit or 0, _MAX_SPANS)), enough):
            in_batch = in_spans(rows, batch).order_by("-position" if newest_first else "position")
            order = "position DESC" if newest_first else "position"
            # No cursor of the server: outside a transaction, PostgreSQL would first write all rows with their
            # bodies to a temporary file.
            for row in long_models(in_batch[:limit], order, ("body", "metadata")):
                yield row
                if limit is not None:
                    limit -= 1
            if limit == 0:
                return

    def newest(self, lineage: Lineage, after: int = 0, kinds: Iterable[str] = ()) -> "Entry | None":
        """The newest live entry after a position, or None."""
        return next(self.live(lineage, after=after, kinds=kinds, newest_first=True, limit=1), None)

    def newest_at(self, lineage: Lineage) -> datetime | None:
        """The time of the newest live entry, or None."""
        newest = self.defer("body", "metadata").newest(lineage)
        return newest.created_at if newest else None

    def update(self, **kwargs: Any) -> int:
        raise Conflict("Entries never change. Append a new entry, or rewind.")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise Conflict("Entries are never deleted. Rewind cuts them off and keeps them as a take.")


def in_spans(rows: Rows, spans: Sequence[Span], column: str = "position", before: int = 0) -> Rows:
    """The rows whose position is in one of the spans. SQLite accepts a few hundred spans.

    Written in SQL, because building a Q of fifty spans takes several times as long as the query.

    Args:
        before: include this many positions before each span.
    """
    values = [
        value for span in spans for value in (session_value(span.session), span.first - before, span.last)
    ]
    where = " OR ".join([f"session_id = %s AND {column} BETWEEN %s AND %s"] * len(spans))
    matching: Any = rows.extra(where=[where], params=values) if spans else rows.none()  # noqa: S610 ours
    return matching  # type: ignore[no-any-return]


def first_in_spans(rows: Rows, spans: Sequence[Span], column: str, count: int) -> Rows:
    """The first ``count`` rows whose position is in one of the spans, in any order.

    Each span is a query of its own, because an index has the order of the rows of one session only:
    PostgreSQL would read and sort all rows of several sessions.
    """
    if not spans:
        return rows.none()
    table = rows.model._meta.db_table
    condition = f"session_id = %s AND {column} BETWEEN %s AND %s ORDER BY {column} LIMIT {count}"
    first = f"SELECT id, {column} FROM {table} WHERE {condition}"  # noqa: S608 ours
    parts = " UNION ALL ".join(f"SELECT * FROM ({first}) AS part{n}" for n in range(len(spans)))  # noqa: S608
    values = [value for span in spans for value in (session_value(span.session), span.first, span.last)]
    ids = f"SELECT id FROM ({parts}) AS parts ORDER BY {column} LIMIT {count}"  # noqa: S608 ours
    matching: Any = rows.extra(where=[f"{table}.id IN ({ids})"], params=values)  # noqa: S610 ours
    return matching  # type: ignore[no-any-return]


def owned_rows(rows: Rows, lineage: Lineage) -> Rows:
    """The rows of the sessions that may own entries of a lineage, written in SQL like :func:`in_spans`."""
    ids = [session_value(session) for session in lineage.owners]
    where = f"session_id IN ({', '.join(['%s'] * len(ids))})"
    owned: Any = rows.extra(where=[where], params=ids) if ids else rows.none()  # noqa: S610 ours
    return owned  # type: ignore[no-any-return]


def spans_between(
    lineage: Lineage, after: int = 0, before: int | None = None, *, newest_first: bool = False
) -> Iterator[Span]:
    """The parts of a lineage's spans between two positions, both excluded, or up to the end."""
    last = lineage.last if before is None else before - 1
    return lineage.between(after + 1, last, newest_first=newest_first)


def _in_short_spans(spans: Iterable[Span], *, newest_first: bool) -> Iterator[Span]:
    """Divides long spans, so that no query counts the bytes of all entries of a long session."""
    for span in spans:
        starts = range(span.first, span.last + 1, _SHORT)
        for start in reversed(starts) if newest_first else starts:
            yield Span(span.session, start, min(span.last, start + _SHORT - 1))


def span_batches(
    spans: Iterable[Span],
    at_once: int = _SPANS_AT_ONCE,
    enough: int | None = None,
    max_entries: int = _SHORT,
) -> Iterator[list[Span]]:
    """Groups spans, one group for each query. A long span is alone, because an index gives its order.

    Args:
        enough: the number of entries that complete a group.
        max_entries: the maximum number of entries of a group with several spans.
    """
    batch: list[Span] = []
    entries = 0
    for span in spans:
        entries += len(span)
        if batch and (entries > max_entries or len(batch) == at_once):
            yield batch
            batch, entries = [], len(span)
        batch.append(span)
        if enough is not None and entries >= enough:
            yield batch
            batch, entries = [], 0
    if batch:
        yield batch


def rare_batches(
    lineage: Lineage, session: Session | None, kind: str, before: int | None = None, *, newest_first: bool
) -> Iterator[list[Span]]:
    """Position ranges in which to query rare rows. In a long lineage they include rows that are not live.

    Ten thousand spans would take hundreds of queries, most of them without a result. One range for each
    session that has such rows takes few queries. The caller then checks by position whether a row is live.

    Args:
        session: the session of the lineage. Without it, all spans are queried.
        kind: see :func:`historyapp.models.ancestors.ancestors_with`.
    """
    if lineage.older and session is not None:
        last = lineage.last if before is None else min(before - 1, lineage.last)
        parts = list(session.parts_with(kind, last))
        yield from span_batches(parts if newest_first else parts[::-1])
    else:
        yield from span_batches(spans_between(lineage, before=before, newest_first=newest_first))


def page_sizes() -> Iterator[tuple[int, int]]:
    """Offsets and sizes of pages that grow, without end: few rows are cheap, and many take few queries."""
    start, size = 0, _FIRST_PAGE
    while True:
        yield start, size
        start, size = start + size, min(_MAX_PAGE, size * 2)


class Entry(models.Model):
    """One immutable record. A database trigger refuses UPDATE and DELETE; see migrations 0002 and 0004."""

    pk = models.CompositePrimaryKey("session", "position")
    session = models.ForeignKey(Session, models.CASCADE, related_name="entries", db_index=False)
    position = models.PositiveIntegerField()
    kind = models.CharField(max_length=20)
    created_at = models.DateTimeField()
    body = PackedJSON()
    """The fields of the entry's kind, without defaults."""
    metadata = JSONText(default=dict)
    tokens = models.PositiveIntegerField(default=0)
    totals = JSONText(default=dict)
    """:class:`historyapp.core.projection.Totals` up to and including this entry, without zeros."""

    objects = EntryQuerySet.as_manager()

    class Meta:
        # Each rare kind has an index to find its newest entry. The two kinds that make up most of the log
        # have none, because every append would have to write a page of it.
        indexes = tuple(
            models.Index(fields=("session", "position"), name=f"entry_{kind}", condition=models.Q(kind=kind))
            for kind in RARE_KINDS
        )

    def __str__(self) -> str:
        return f"{self.kind} at {self.position}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise Conflict("Entries never change. Append a new entry, or rewind.")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise Conflict("Entries are never deleted. Rewind cuts them off and keeps them as a take.")

    def core(self) -> core.Entry:
        """The entry as a value of the core."""
        body = core.load_body(self.kind, self.body)
        return core.Entry(self.position, body, self.created_at, self.metadata, self.tokens)


class RetentionPass(models.Model):
    """While this table has a row, within one transaction, the triggers allow retention to delete entries."""

    opened_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"retention pass of {self.opened_at}"
