"""The log's table, and reading the entries of a lineage."""

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_
from typing import Any, TypeVar
from uuid import UUID

from django.db import models

from historyapp.core import entries as core
from historyapp.core.errors import Conflict
from historyapp.core.lineage import Lineage, Span
from historyapp.core.projection import Totals
from historyapp.models.fields import JSONText, PackedJSON
from historyapp.models.sessions import Session

Row = TypeVar("Row", bound=models.Model)

_SPANS_AT_ONCE = 20
_FIRST_PAGE, _LARGEST_PAGE = 16, 1024  # rows
RARE_KINDS = tuple([kind for kind in core.KINDS if kind not in ("model_output", "tool_results")])
"""Each has an index of its own: a new kind takes a migration."""
_SHORT = 1000  # entries; sorting so many costs little


class EntryQuerySet(models.QuerySet["Entry"]):
    """Reads only: the log grows through ``historyapp.services.append`` and never changes."""

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
        """The live entries between two positions (both excluded), streamed in order of position.

        Args:
            limit: at most so many, and reading them costs no more, however long the session is. Give it
                wherever not all are wanted: PostgreSQL works out the whole answer before it streams a part.
        """
        spans = spans_between(lineage, after, before)
        if newest_first:
            spans.reverse()
        rows = self.of_kinds(list(kinds))
        for batch in span_batches(spans):
            found = rows.within(batch).order_by("-position" if newest_first else "position")
            if limit is None:
                yield from found.iterator(chunk_size=500)
                continue
            page = list(found[:limit])
            yield from page
            limit -= len(page)
            if not limit:
                return

    def of_kinds(self, kinds: list[str]) -> "EntryQuerySet":
        """Entries of some kinds; of all without any. One kind is matched as its index wants it."""
        if len(kinds) == 1:
            return self.filter(kind=kinds[0])
        return self.filter(kind__in=kinds) if kinds else self

    def within(self, spans: Iterable[Span]) -> "EntryQuerySet":
        """The entries of some spans. More than a few hundred spans at once would overrun SQLite."""
        conditions = [
            models.Q(session_id=UUID(span.session), position__range=(span.first, span.last)) for span in spans
        ]
        return self.filter(reduce(or_, conditions)) if conditions else self.none()

    def newest(self, lineage: Lineage, kind: str) -> "Entry | None":
        """The newest live entry of a kind, or None: the current instruction or notebook."""
        return next(self.live(lineage, kinds=[kind], newest_first=True, limit=1), None)

    def update(self, **kwargs: Any) -> int:
        raise Conflict("Entries never change. Append a new entry, or rewind.")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise Conflict("Entries are never deleted. Rewind cuts them off and keeps them as a take.")


def spans_between(lineage: Lineage, after: int, before: int | None) -> list[Span]:
    """What of the spans lies between two positions (both excluded; null: no end), oldest first."""
    first, last = after + 1, lineage.last if before is None else before - 1
    return [
        Span(span.session, max(span.first, first), min(span.last, last))
        for span in lineage.spans
        if max(span.first, first) <= min(span.last, last)
    ]


def span_batches(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Spans for one query: a long one alone, since an index gives its order; short ones together."""
    batch: list[Span] = []
    for span in spans:
        if batch and (sum(map(len, batch)) + len(span) > _SHORT or len(batch) == _SPANS_AT_ONCE):
            yield batch
            batch = []
        batch.append(span)
    if batch:
        yield batch


def read_in_pages(rows: models.QuerySet[Row]) -> Iterator[Row]:
    """Ordered rows, read in growing pages: a reader of few pays for few, one of many issues few queries."""
    for start, size in pages():
        page = list(rows[start : start + size])
        yield from page
        if len(page) < size:
            return


def pages() -> Iterator[tuple[int, int]]:
    """Where growing pages start, and their sizes in rows."""
    start, size = 0, _FIRST_PAGE
    while True:
        yield start, size
        start, size = start + size, min(_LARGEST_PAGE, size * 2)


class Entry(models.Model):
    """One immutable record. A database trigger refuses UPDATE and DELETE; see migrations 0002 and 0004."""

    pk = models.CompositePrimaryKey("session", "position")
    session = models.ForeignKey(Session, models.CASCADE, related_name="entries", db_index=False)
    position = models.PositiveIntegerField()
    kind = models.CharField(max_length=20)
    created_at = models.DateTimeField()
    body = PackedJSON()
    """The fields of the kind that differ from their defaults."""
    metadata = JSONText(default=dict)
    tokens = models.PositiveIntegerField(default=0)
    totals = JSONText(default=dict)
    """:class:`historyapp.core.projection.Totals` up to and including this entry, without zeros."""

    objects = EntryQuerySet.as_manager()

    class Meta:
        # One index for each kind that is rare in a history, so that the newest of it is found at once. The
        # kinds that make up the bulk of the log have none: it would cost every append a page to write.
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
        """The entry as the core knows it."""
        body = core.load_body(self.kind, self.body)
        return core.Entry(self.position, body, self.created_at, self.metadata, self.tokens)

    @property
    def running_totals(self) -> Totals:
        return Totals.load(self.totals)


class RetentionPass(models.Model):
    """While a row stands here, within one transaction, the triggers let the retention job delete entries."""

    opened_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"retention pass of {self.opened_at}"
