"""The log's table, and reading the entries of a lineage."""

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from django.db import models

from historyapp.core import entries as core
from historyapp.core.errors import Conflict
from historyapp.core.lineage import Lineage, Span
from historyapp.models.fields import JSONText, PackedJSON
from historyapp.models.sessions import Session

_SPANS_AT_ONCE = 20
_FIRST_PAGE, _LARGEST_PAGE = 16, 1024  # rows
RARE_KINDS = tuple([kind for kind in core.KINDS if kind not in ("model_output", "tool_results")])
"""Each has its own index: a new kind needs a migration."""
_SHORT = 1000  # entries; sorting them is cheap


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
            limit: the most entries to read; the cost does not grow with the session's length. Give it unless
                all are wanted: PostgreSQL computes the whole result before it streams the first part.
        """
        spans = spans_between(lineage, after, before, newest_first=newest_first)
        wanted, rows = list(kinds), self
        if wanted:  # a single kind is compared as in the condition of its index
            rows = self.filter(kind=wanted[0]) if len(wanted) == 1 else self.filter(kind__in=wanted)
        for batch in span_batches(spans):
            found = rows.filter(in_spans(batch)).order_by("-position" if newest_first else "position")
            if limit is None:
                yield from found.iterator(chunk_size=500)
                continue
            page = list(found[:limit])
            yield from page
            limit -= len(page)
            if not limit:
                return

    def newest(self, lineage: Lineage, after: int = 0, kinds: Iterable[str] = ()) -> "Entry | None":
        """The newest live entry after a position, or None."""
        return next(self.live(lineage, after=after, kinds=kinds, newest_first=True, limit=1), None)

    def update(self, **kwargs: Any) -> int:
        raise Conflict("Entries never change. Append a new entry, or rewind.")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise Conflict("Entries are never deleted. Rewind cuts them off and keeps them as a take.")


def in_spans(spans: Iterable[Span], column: str = "position") -> models.Q:
    """The condition that a position column lies in one of some spans; SQLite takes a few hundred of them."""
    conditions = [
        models.Q(session_id=UUID(span.session), **{f"{column}__range": (span.first, span.last)})
        for span in spans
    ]
    return reduce(or_, conditions)


def spans_between(
    lineage: Lineage, after: int = 0, before: int | None = None, *, newest_first: bool = False
) -> Iterator[Span]:
    """The parts of a lineage's spans between two positions (both excluded; None: no end)."""
    last = lineage.last if before is None else before - 1
    return lineage.between(after + 1, last, newest_first=newest_first)


def span_batches(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Spans for one query each: a long one alone, since an index gives its order, short ones together."""
    batch: list[Span] = []
    for span in spans:
        if batch and (sum(map(len, batch)) + len(span) > _SHORT or len(batch) == _SPANS_AT_ONCE):
            yield batch
            batch = []
        batch.append(span)
    if batch:
        yield batch


def rare_batches(lineage: Lineage, before: int | None = None, *, newest_first: bool) -> Iterator[list[Span]]:
    """Ranges for queries of rows that are rare. Those of a long lineage hold rows that are not live, too.

    Ten thousand spans take hundreds of queries, most of which find nothing. The range of all of them takes
    one, and whether a row is live is found by its position.
    """
    if lineage.older and len(lineage.sessions) == 1:
        yield [Span(lineage.sessions[0], 1, lineage.last)]
    else:
        yield from span_batches(spans_between(lineage, before=before, newest_first=newest_first))


def page_sizes() -> Iterator[tuple[int, int]]:
    """Offsets and sizes of growing pages, in rows, endless: few rows cost little, many take few queries."""
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
        # Each rare kind has an index, so that its newest entry is found at once. The two kinds that make up
        # most of the log have none: it would cost every append a page to write.
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
    """While this table has a row (within one transaction) the triggers let retention delete entries."""

    opened_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"retention pass of {self.opened_at}"
