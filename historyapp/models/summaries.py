"""Summaries: texts that replace a range of positions in contexts, wherever the range is live."""

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, chain, islice
from typing import Any, NamedTuple, Self, TypeVar
from uuid import UUID

from django.db import models
from django.db.models import Min
from django.db.models.functions import Length
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.core.json import dump_json
from historyapp.core.lineage import Lineage, Span
from historyapp.core.live_spans import spans_at
from historyapp.models.ancestors import SUMMARIES
from historyapp.models.entries import first_in_spans, in_spans, page_sizes, rare_batches
from historyapp.models.fields import JSONText, as_uuid, read_json, uuid_text
from historyapp.models.long_rows import long_rows
from historyapp.models.sessions import Session
from historyapp.models.sql import fetch_all
from historyapp.models.summary_texts import SummaryTexts, growing_parts, texts_of

_MAX_SPANS = 20
_IDS_AT_ONCE = 500
MANY_CHARACTERS = 1 << 24
"""Summaries with more characters of JSON are read without those that newer ones of the same range replace."""
MAX_SAME_END = 1000
"""The maximum number of summaries that end at the same step. A client cannot add more."""
MAX_PAGE_BYTES = 8 * 1024 * 1024
"""A page of summaries ends after this many bytes of JSON."""
READ_AT_ONCE = 16
"""Summaries of one query in :meth:`SummaryQuerySet.read`, if they have few characters."""
READ_CHARACTERS = 1 << 22
"""A query reads summaries with about this many characters, or one: an import may have summaries of 30 MB."""
MAX_COVERING = 400
"""The maximum number of summaries to read in order to find those that cover some positions."""


class SummaryRow(NamedTuple):
    """The fields of a summary that contexts use. A thousand model instances take as long to create as the
    request takes to write.
    """

    id: str
    session_id: UUID
    made_in_id: UUID
    made_at: int
    first_position: int
    last_position: int
    first_step: int
    last_step: int
    level: int
    text: str
    key_points: list[str]


Row = TypeVar("Row", "Summary", SummaryRow)


def existed_at(summary: "Summary | SummaryRow", session: Session, as_of: int | None) -> bool:
    """Whether a summary existed when ``as_of`` was the session's head. True if ``as_of`` is None."""
    if as_of is None:
        return True
    made_here = summary.made_in_id == session.id
    return summary.made_at <= (as_of if made_here else min(as_of, session.fork_position))


def _valid(
    summaries: Iterable[Row], session: Session, lineage: Lineage, as_of: int | None = None
) -> list[Row]:
    """The summaries that are valid in a lineage and existed at a position."""
    candidates = list(summaries)
    spans = spans_at(lineage, (summary.last_position for summary in candidates))
    return [
        summary
        for summary in candidates
        if (span := spans.get(summary.last_position)) is not None
        and span.session == str(summary.session_id)
        and existed_at(summary, session, as_of)
    ]


def _rows(summaries: "SummaryQuerySet") -> Iterator[tuple[SummaryRow, int]]:
    """The summaries in the order of their ids, with the fields that contexts use, each with the characters of
    JSON that were read for it. They count as read by the request.
    """
    statement, values = summaries.order_by("id").values_list(*SummaryRow._fields).query.sql_with_params()
    for row in long_rows(statement, values, "id", ("text", "key_points"), keep_open=True, seek=True):
        yield _row(row)


def _row(row: tuple[Any, ...]) -> tuple[SummaryRow, int]:
    """Not in the generator, which would hold the stored texts of the row while it reads the next one."""
    stored = row[9:]
    ids = uuid_text(row[0]), as_uuid(row[1]), as_uuid(row[2])
    return SummaryRow(*ids, *row[3:9], *map(read_json, stored)), sum(map(len, stored))


def _rows_without_texts(summaries: "SummaryQuerySet") -> list[SummaryRow]:
    """The summaries in their order, with empty texts."""
    statement, values = summaries.values_list(*SummaryRow._fields[:9]).query.sql_with_params()
    session = cache(as_uuid)  # usually one
    return [
        SummaryRow._make((uuid_text(row[0]), session(row[1]), session(row[2]), *row[3:], "", []))
        for row in fetch_all(statement, values)
    ]


def _end(row: SummaryRow) -> tuple[int, int, str]:
    return row.last_position, row.level, row.id


def _range(row: SummaryRow) -> tuple[int, int, int, int]:
    """A newer summary with the same values replaces this one."""
    return row.session_id.int, row.first_position, row.last_position, row.level


def _few_spans(lineage: Lineage, first: int, last: int) -> list[Span] | None:
    """The spans between two positions, or None if one query cannot take them all."""
    if last == lineage.last and lineage.min_spans_from(first) > _MAX_SPANS:
        return None  # known without loading them
    spans = list(islice(lineage.between(first, last), _MAX_SPANS + 1))
    return spans if len(spans) <= _MAX_SPANS else None


class SummaryQuerySet(models.QuerySet["Summary"]):
    """A summary is valid in each lineage that has its last entry, since all entries before it are then the
    same.

    With ``as_of``, only summaries count that existed then in the session, or before it was forked.
    """

    def ending_in(self, session: Session, lineage: Lineage, first: int, last: int) -> Self:
        """The summaries that end between two positions (both included), valid or not."""
        last = min(last, lineage.last)
        spans = _few_spans(lineage, first, last)
        if spans is None:  # one range for each session, which may include summaries of takes
            parts = session.parts_with(SUMMARIES, last)
            spans = [
                Span(part.session, max(first, part.first), part.last) for part in parts if part.last >= first
            ]
        return in_spans(self, spans, "last_position")

    def first_ending_in(
        self, session: Session, lineage: Lineage, positions: tuple[int, int], count: int
    ) -> Self:
        """The first ``count`` summaries that end between two positions (both included), valid or not."""
        first, last = positions[0], min(positions[1], lineage.last)
        spans = _few_spans(lineage, first, last)
        if spans is not None:
            return first_in_spans(self, spans, "last_position", count)
        ends = self.model.objects.ending_in(session, lineage, first, last).order_by("last_position")
        return self.filter(pk__in=ends.values("pk")[:count])

    def live(
        self, session: Session, lineage: Lineage, positions: tuple[int, int], as_of: int | None = None
    ) -> list["Summary"]:
        """The valid summaries that end within ``positions`` (both included), oldest first."""
        return _valid(self._by_ends(session, lineage, positions), session, lineage, as_of)

    def live_ranges(
        self, session: Session, lineage: Lineage, positions: tuple[int, int], *, until: int, max_later: int
    ) -> list[tuple[int, int]]:
        """The first and the last step of the longest valid summary for each end within ``positions`` (both
        included), and for each later end if it covers the last of them, in any order.

        Args:
            until: the greatest position of a later end.
            max_later: so many summaries with later ends are read. Their strategies are not in the index.
        """
        first, last = positions
        parts = [self.ending_in(session, lineage, first, last)]
        if until > last:
            later = self.first_ending_in(session, lineage, (last + 1, until), max_later)
            parts.append(later.filter(first_position__lte=last))
        found = list[tuple[UUID, int, int, int]]()
        for part in parts:
            ends = part.order_by().values("session_id", "last_position", "last_step")
            columns = ends.annotate(first=Min("first_step"))
            found += columns.values_list("session_id", "last_position", "first", "last_step")
        spans = spans_at(lineage, (last_position for _, last_position, *_ in found))
        return [
            (first, last)
            for owner, last_position, first, last in found
            if (span := spans.get(last_position)) is not None and span.session == str(owner)
        ]

    def live_rows(
        self,
        session: Session,
        lineage: Lineage,
        positions: tuple[int, int],
        exists: Callable[[SummaryRow], bool],
    ) -> list[SummaryRow]:
        """The valid summaries that end within ``positions`` and exist, with the fields that contexts use.

        If their texts are long, only the newest summary of each level is read for a range. Contexts and steps
        use no other one.
        """
        summaries = self._by_ends(session, lineage, positions)
        rows, characters = list[SummaryRow](), 0
        for row, size in _rows(summaries):
            rows.append(row)
            characters += size
            if characters > MANY_CHARACTERS:
                break
        else:
            valid = _valid(sorted(rows, key=_end), session, lineage)
            return [row for row in valid if exists(row)]
        found = _valid(_rows_without_texts(summaries), session, lineage)
        newest = {_range(row): row for row in found if exists(row)}
        return sorted(self._with_texts(list(newest.values())), key=_end)

    def _with_texts(self, rows: Sequence[SummaryRow]) -> list[SummaryRow]:
        """The rows with their texts, in the given order."""
        texts = dict[str, SummaryTexts]()
        for start in range(0, len(rows), _IDS_AT_ONCE):
            texts |= texts_of([row.id for row in rows[start : start + _IDS_AT_ONCE]])
        return [row._replace(**texts[row.id]._asdict()) for row in rows if row.id in texts]

    def without_texts(self) -> Self:
        return self.defer("text", "key_points")

    def read(self, ids: Iterable[UUID]) -> Iterator["Summary"]:
        """The summaries with these ids, in this order, a few at a time. Those that were deleted are left
        out."""
        waiting = iter(ids)
        while some := list(islice(waiting, READ_AT_ONCE)):
            length = Length("text") + Length("key_points")
            lengths = dict(self.filter(pk__in=some).values_list("pk", length))
            while some:
                totals = accumulate(lengths.get(id, 0) for id in some)
                count = max(1, sum(total <= READ_CHARACTERS for total in totals))
                part, some = some[:count], some[count:]
                found = self.in_bulk(part)
                yield from (found.pop(id) for id in part if id in found)

    def _by_ends(self, session: Session, lineage: Lineage, positions: tuple[int, int]) -> Self:
        return self.ending_in(session, lineage, *positions).order_by("last_position", "level", "id")

    def newest_first(
        self, lineage: Lineage, before: int, session: Session | None = None
    ) -> Iterator[SummaryRow]:
        """The valid summaries that end before a position, in descending order of their ends, read lazily and
        without their texts.

        Of summaries with the same end the one of the higher level comes first, and of these the newest.

        Args:
            session: the session of the lineage. With it, summaries in a long lineage take few queries.
        """
        return chain.from_iterable(self._pages_newest_first(lineage, before, session))

    def rows_newest_first(
        self, lineage: Lineage, before: int, session: Session, exists: Callable[[SummaryRow], bool]
    ) -> Iterator[SummaryRow]:
        """The summaries that exist in the same order, with their texts.

        Leaves out summaries that newer ones of the same range and level replace.
        """
        seen = set[tuple[int, int, int, int]]()
        for page in self._pages_newest_first(lineage, before, session):
            existing = [row for row in page if exists(row)]
            newest = {_range(row): row for row in reversed(existing) if _range(row) not in seen}
            seen |= newest.keys()
            for part in growing_parts(list(newest.values())[::-1]):
                yield from self._with_texts(part)

    def _pages_newest_first(
        self, lineage: Lineage, before: int, session: Session | None
    ) -> Iterator[list[SummaryRow]]:
        for batch in rare_batches(lineage, session, SUMMARIES, before, newest_first=True):
            last: SummaryRow | None = None
            for _, size in page_sizes():
                ends = self._ends_after(last, batch) if last else in_spans(self, batch, "last_position")
                rows = ends.filter(last_position__lt=before).order_by("-last_position", "-level", "-id")
                page = _rows_without_texts(rows[:size])
                live = spans_at(lineage, (row.last_position for row in page))
                yield [row for row in page if row.last_position in live]
                if len(page) < size:
                    break
                last = page[-1]

    def _ends_after(self, row: SummaryRow, spans: Iterable[Span]) -> Self:
        """The summaries that end in the spans and come after ``row`` when the newest come first.

        Found by its key and not by their number: a summary that is added meanwhile shifts none of them.
        """
        end = row.last_position
        earlier = [Span(span.session, span.first, min(span.last, end)) for span in spans if span.first <= end]
        lower = models.Q(level__lt=row.level) | models.Q(level=row.level, pk__lt=row.id)
        return in_spans(self, earlier, "last_position").filter(lower | models.Q(last_position__lt=end))

    def page(
        self,
        session: Session,
        lineage: Lineage,
        limit: int,
        *,
        after: tuple[int, UUID] | None = None,
        as_of: int | None = None,
    ) -> tuple[list["Summary"], bool]:
        """The first ``limit`` valid summaries after the given pair, in the order of last position and id.

        Fewer if they have more than :data:`MAX_PAGE_BYTES`. Also returns whether there are more.
        """
        found: list[Summary] = []
        while len(found) <= limit:
            rows = self.ending_in(session, lineage, after[0] if after else 1, lineage.last)
            if after is not None:
                later = models.Q(last_position__gt=after[0]) | models.Q(pk__gt=after[1])
                rows = rows.filter(later)
            batch = list(rows.without_texts().order_by("last_position", "pk")[: limit + 1])
            found += _valid(batch, session, lineage, as_of)
            if len(batch) <= limit:
                break
            after = batch[-1].last_position, batch[-1].pk
        page, size = list[Summary](), 0
        for summary in self.model.objects.read([row.pk for row in found[:limit]]):
            page.append(summary)
            size += len(dump_json([summary.text, summary.key_points]))
            if size > MAX_PAGE_BYTES:
                break
        return page, len(found) > len(page)

    def add(self, summaries: Sequence["Summary"]) -> None:
        """Stores summaries of one lineage. Their ids are greater than those of earlier summaries with the
        same ends.

        Contexts use the summary with the greatest id. An id begins with the time, so without this rule a
        summary would have no effect if the clock was set back since the earlier one.
        """
        ends = {summary.last_position for summary in summaries}
        owners = {summary.session_id for summary in summaries}
        ids = self.filter(session_id__in=owners, last_position__in=ends).values_list("id", flat=True)
        newest = ids.order_by("-id").first() or UUID(int=0)  # thousands of forks may have summarised one step
        for summary in summaries:
            if summary.id <= newest:
                summary.id = UUID(int=newest.int + 1 + secrets.randbits(32))
            newest = summary.id
        self.bulk_create(summaries)

    def covering(
        self, session: Session, lineage: Lineage, positions: tuple[int, int], as_of: int | None = None
    ) -> list["Summary"]:
        """The valid summaries that cover any of ``positions``, in the order of their ends.

        Reads only the next 400 that end there or later, so the cost is the same in every session.
        """
        rows = self.first_ending_in(session, lineage, (positions[0], lineage.last), MAX_COVERING)
        rows = rows.filter(first_position__lte=positions[1])
        return _valid(rows.order_by("last_position", "level", "id"), session, lineage, as_of)


class Summary(models.Model):
    """Summaries are never edited. Contexts use a newer summary or one of a higher level instead."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    session = models.ForeignKey(Session, models.CASCADE, related_name="summaries")
    """The owner of the entry at ``last_position``. If a fork summarises shared entries, that is a parent."""
    made_in = models.ForeignKey(Session, models.CASCADE, related_name="+")
    made_at = models.PositiveIntegerField()
    """The head of ``made_in`` when it was made."""
    first_position = models.PositiveIntegerField()
    last_position = models.PositiveIntegerField()
    first_step = models.PositiveIntegerField()
    last_step = models.PositiveIntegerField()
    level = models.PositiveSmallIntegerField(default=1)
    """1: one episode. 2: a range. 3: a digest of ranges."""
    text = JSONText()
    key_points = JSONText(default=list)
    strategy = models.CharField(max_length=50, default="manual")
    model = models.CharField(max_length=200, blank=True)
    tokens_before = models.PositiveIntegerField(default=0)
    tokens_after = models.PositiveIntegerField(default=0)
    cost = models.PositiveBigIntegerField(null=True)
    """The cost of the model call in millionths of a dollar. Null without a model call or a known price."""
    run = models.ForeignKey("CompressionRun", models.SET_NULL, null=True, related_name="summaries")
    """The compression run that made it. Null for manual and imported summaries."""
    actor = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    objects = SummaryQuerySet.as_manager()

    class Meta:
        indexes = (models.Index(fields=("session", "last_position"), name="summary_by_end"),)

    def __str__(self) -> str:
        return f"summary of {self.first_position}–{self.last_position}"


def own_by_step(summaries: Iterable[SummaryRow]) -> dict[int, SummaryRow]:
    """The newest summary of each single step by step number. Summaries of ranges are left out."""
    own = (summary for summary in summaries if summary.first_step == summary.last_step)
    return {s.first_step: s for s in sorted(own, key=lambda s: (s.level, s.id))}
