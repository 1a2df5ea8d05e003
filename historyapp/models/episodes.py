"""The rows of steps, which lists show without loading the bodies of entries."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, Self, TypeVar
from uuid import UUID

from django.db import models
from django.db.models import OuterRef, Subquery

from historyapp.core.episodes import STATUSES
from historyapp.core.lineage import Lineage, Span
from historyapp.core.live_spans import spans_at
from historyapp.core.projection import Step
from historyapp.models.compiled import CompiledQuery
from historyapp.models.entries import Entry, in_spans, owned_rows
from historyapp.models.fields import JSONText, PackedText, at_places
from historyapp.models.notes import StepNote
from historyapp.models.sessions import Session, session_ids
from historyapp.models.sql import (
    OutlineRow,
    RowPlace,
    outline_rows,
    outline_rows_in,
    row_places,
    row_places_in,
)
from historyapp.models.step_positions import (
    MAX_SPANS,
    consecutive,
    growing_batches,
    have_few_rows,
    place_limit,
    row_limit,
    spans_from_step,
)

_MAX_OWNERS = 256
"""In more sessions, rows are found by position, which takes 20 queries. By number, 200 take 0.2 ms."""
ENTRIES_OF_STEP = 2
"""The entries of most steps: an output and its results. Steps with more entries take more queries."""
INDEXED_STATUSES = ("error", "interrupted_by_human", "answered", "abandoned")
"""Each of these has its own index. Most steps end as ``success`` and write to none of them."""
_STATUS_INDEXES = ("episode_errors", "episode_interrupted", "episode_answered", "episode_abandoned")
SEVERAL_TOOLS = "\n"
"""The tool of a step that called different tools. No tool has this name."""


class StepSample(NamedTuple):
    """The columns for drawing a timeline of a long session. Whole rows would cost more."""

    session_id: UUID
    anchor: int
    number: int
    status: str
    tool_names: list[str]
    tokens: int
    total_tokens: int
    total_errors: int
    kind: str = ""
    likely_failure: str = ""
    total_likely_failures: int = 0
    input_preview: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    turn: int = 0
    turn_first: int = 0
    compactions: int = 0
    entry_totals: Mapping[str, Any] | None = None
    """The totals stored with the entry at the anchor, if they were requested."""

    @classmethod
    def at(cls, session: UUID, number: int, tokens: int, errors: int) -> "StepSample":
        """A sample whose totals are known, but nothing else."""
        return cls(session, 0, number, "success", [], 0, tokens, errors)


class StepSignature(NamedTuple):
    """The columns by which steps of different runs are aligned and compared."""

    session_id: UUID
    anchor: int
    number: int
    status: str
    tool: str
    target: str
    input_preview: str
    call_preview: str
    result_preview: str


Row = TypeVar("Row", "Episode", StepSample, StepSignature, OutlineRow, RowPlace)


def _few_rows_of(
    lineage: Lineage, first: int, last: int, read: Callable[[int], list[Row]]
) -> list[Row] | None:
    """Live rows ``first`` to ``last``, or None if many rows have these numbers.

    Args:
        read: reads the rows with these numbers in all sessions of the lineage. Its argument is a limit.
    """
    # Many rewinds usually cut off few steps each. With many sessions, rows are found by position instead.
    if lineage.older:
        may_be_few = 0 < len(lineage.owners) <= _MAX_OWNERS
    else:
        may_be_few = have_few_rows(lineage, first, last)
    limit = row_limit(first, last)
    rows = read(limit + 1) if may_be_few else []
    return live_rows(rows, lineage) if may_be_few and len(rows) <= limit else None


def _rows_by_place(
    lineage: Lineage, first: int, last: int, read: Callable[[Sequence[Span], int], list[Row]]
) -> list[Row]:
    """Live rows ``first`` to ``last``, found by the positions of their steps.

    Args:
        read: reads the rows that begin in some spans or were cut before one of them, in the order of anchors.
        Its second argument is a limit.
    """
    numbered: list[Row] = []
    part: list[Span] = []
    count = last - first + 1
    # Without a condition on numbers: with one, the database would read an index through all takes.
    for batch in growing_batches(spans_from_step(lineage, first), ENTRIES_OF_STEP * (count + 4)):
        part += batch
        batch_rows = read(batch, count + len(batch) + 1)
        numbered += [row for row in batch_rows if first <= row.number <= last]
        if batch_rows and batch_rows[-1].number > last:
            break
    return live_rows(numbered, Lineage(tuple(part)))


def _live_places(lineage: Lineage, numbers: Sequence[int], limit: int) -> list[RowPlace]:
    """The places of live rows. If more than ``limit`` rows have these numbers, only live ones are read."""
    if 0 < len(lineage.owners) <= _MAX_OWNERS:
        places = row_places(lineage.owners, numbers, limit + 1)
        if len(places) <= limit:
            return live_rows(places, lineage)
    parts = consecutive(numbers)
    return [row for part in parts for row in _rows_by_place(lineage, part[0], part[-1], row_places_in)]


class EpisodeQuerySet(models.QuerySet["Episode"]):
    """Takes reuse step numbers. If few rows have the requested numbers, :func:`live_rows` drops the rows that
    are not live. If many have them, the positions of the steps are found first.
    """

    def numbered(self, lineage: Lineage, first: int, last: int) -> list["Episode"]:
        """Live steps ``first`` to ``last``, oldest first. The cost depends only on their number."""
        if lineage.older or len(lineage.newest) > 1:
            return self.at(_live_places(lineage, range(first, last + 1), row_limit(first, last)))
        rows = _few_rows_of(lineage, first, last, partial(_rows_without_excerpts, lineage, first, last))
        return self.at(_rows_by_place(lineage, first, last, row_places_in)) if rows is None else rows

    def few_with_numbers(self, lineage: Lineage, numbers: Sequence[int]) -> list["Episode"] | None:
        """Steps with these numbers, or None if that takes too many rows or spans."""
        if lineage.older:
            return None
        limit = row_limit(1, len(numbers))
        rows = self.filter(session_id__in=session_ids(lineage), number__in=numbers).defer("excerpt")
        steps = list(rows[: limit + 1])
        return live_rows(steps, lineage) if len(steps) <= limit else None

    def with_numbers(self, lineage: Lineage, numbers: Sequence[int]) -> list["Episode"]:
        """The live steps with these numbers, by number. The cost depends only on how many they are."""
        one_span = not lineage.older and len(lineage.newest) < 2
        rows = self.few_with_numbers(lineage, numbers) if one_span else None
        return self.at(_live_places(lineage, numbers, place_limit(numbers))) if rows is None else rows

    def outlines(self, lineage: Lineage, first: int, last: int) -> list[OutlineRow]:
        """The same steps, with the columns for contexts."""
        rows = _few_rows_of(
            lineage, first, last, lambda limit: outline_rows(lineage.owners, first, last, limit)
        )
        return _rows_by_place(lineage, first, last, outline_rows_in) if rows is None else rows

    def sampled(
        self, lineage: Lineage, first: int, last: int, *, with_totals: bool = False
    ) -> list[StepSample]:
        """The same steps, with the columns for timelines."""
        return self._shaped(lineage, first, last, lambda rows: rows._samples(with_totals=with_totals))

    def signatures(self, lineage: Lineage, first: int, last: int) -> list[StepSignature]:
        """The same steps, with the columns for comparing runs."""
        columns = StepSignature._fields
        return self._shaped(
            lineage, first, last, lambda rows: [StepSignature(*row) for row in rows.values_list(*columns)]
        )

    def _shaped(
        self, lineage: Lineage, first: int, last: int, shape: "Callable[[EpisodeQuerySet], list[Row]]"
    ) -> list[Row]:
        """Live steps ``first`` to ``last`` with the columns that ``shape`` selects."""
        rows = _few_rows_of(
            lineage, first, last, lambda limit: shape(self._in_sessions(lineage, first, last, limit))
        )
        if rows is not None:
            return rows
        return _rows_by_place(
            lineage,
            first,
            last,
            lambda spans, limit: shape(in_spans(self, spans, "anchor", before=1).order_by("anchor")[:limit]),
        )

    def _in_sessions(self, lineage: Lineage, first: int, last: int, limit: int) -> Self:
        return owned_rows(self.filter(number__range=(first, last)), lineage)[:limit]

    def at(self, places: Sequence[RowPlace]) -> list["Episode"]:
        """The rows at these places, without excerpts, by number."""
        rows: list[Episode] = []
        for start in range(0, len(places), MAX_SPANS):
            batch = places[start : start + MAX_SPANS]
            where, values = at_places([(str(place.session_id), place.anchor) for place in batch], "anchor")
            rows += self.defer("excerpt").extra(where=[where], params=values)  # noqa: S610 ours
        return sorted(rows, key=attrgetter("number"))

    def sampled_at(
        self, lineage: Lineage, numbers: Sequence[int], *, with_totals: bool = False
    ) -> list[StepSample] | None:
        """Steps with these ascending numbers. None if :meth:`sampled_sparsely` returns None."""
        first, last = (numbers[0], numbers[-1]) if numbers else (1, 0)
        if len(numbers) == last - first + 1:
            return self.sampled(lineage, first, last, with_totals=with_totals)
        return self.sampled_sparsely(lineage, numbers, with_totals=with_totals)

    def sampled_sparsely(
        self, lineage: Lineage, numbers: Sequence[int], *, with_totals: bool = False
    ) -> list[StepSample] | None:
        """Steps with these numbers, or None if that takes too many rows or spans."""
        if lineage.older:
            return None
        rows = self.filter(session_id__in=session_ids(lineage), number__in=list(numbers))
        limit = row_limit(1, len(numbers))
        samples = rows[: limit + 1]._samples(with_totals=with_totals)
        return live_rows(samples, lineage) if len(samples) <= limit else None

    def _samples(self, *, with_totals: bool) -> list[StepSample]:
        """Rows with the columns for timelines, and on request with totals. One query."""
        if not with_totals:
            return [StepSample(*row) for row in self.values_list(*StepSample._fields[:-1])]
        at_anchor = Entry.objects.filter(session=OuterRef("session"), position=OuterRef("anchor"))
        rows = self.annotate(entry_totals=Subquery(at_anchor.values("totals")))
        return [StepSample(*row) for row in rows.values_list(*StepSample._fields)]


def _rows_without_excerpts(lineage: Lineage, first: int, last: int, limit: int) -> list["Episode"]:
    if len(lineage.owners) == 1:
        return _rows_of_session(limit).rows(UUID(lineage.owners[0]), first, last)
    return list(Episode.objects.defer("excerpt")._in_sessions(lineage, first, last, limit))


@lru_cache(maxsize=100)
def _rows_of_session(limit: int) -> "CompiledQuery[Episode]":
    """The rows of one session from one number to another. ``LIMIT`` has no parameter."""
    rows, examples = Episode.objects.defer("excerpt"), (UUID(int=1), 1 << 29, 1 << 30)
    return CompiledQuery(lambda id, *span: rows.filter(session=id, number__range=span)[:limit], *examples)


def live_anchors(lineage: Lineage, session: str, anchors: Sequence[int]) -> set[int]:
    """The anchors of a session's live rows among ``anchors``."""
    is_live, _ = _live_at(lineage, anchors)
    return {anchor for anchor in anchors if is_live(session, anchor)}


def live_rows(rows: Iterable[Row], lineage: Lineage) -> list[Row]:
    """The live rows, one for each number. If a rewind or fork cut the step, that is the row of the cut step.

    A fork's row may have the same anchor as the row that it continues.
    """
    candidates = list(rows)
    is_live, is_cut = _live_at(lineage, [row.anchor for row in candidates])
    names = {row.session_id: str(row.session_id) for row in candidates}
    live: list[tuple[int, int, bool, Row]] = []
    for row in candidates:
        session, anchor = names[row.session_id], row.anchor
        if is_live(session, anchor):
            live.append((row.number, anchor, is_cut(session, anchor), row))
    live.sort(key=itemgetter(0, 1, 2))
    return list({number: row for number, _, _, row in live}.values())


_RowTest = Callable[[str, int], bool]


def _live_at(lineage: Lineage, anchors: Sequence[int]) -> tuple[_RowTest, _RowTest]:
    """Whether a session's row at an anchor is live, and whether a rewind or a fork made it, for some anchors.

    A row is live if its anchor is live, or if the lineage continues after the rewind or fork that made it.
    """
    spans = spans_at(lineage, (at for anchor in anchors for at in (anchor, anchor + 1)))

    def is_cut(session: str, anchor: int) -> bool:
        following = spans.get(anchor + 1)
        return following is not None and following.first == anchor + 1 and following.session == session

    def is_live(session: str, anchor: int) -> bool:
        at = spans.get(anchor)
        return (at is not None and at.session == session) or is_cut(session, anchor)

    return is_live, is_cut


class Episode(models.Model):
    """The row of a :class:`historyapp.core.projection.Step`, which explains the columns."""

    pk = models.CompositePrimaryKey("session", "anchor")
    session = models.ForeignKey(Session, models.CASCADE, related_name="episodes", db_index=False)
    anchor = models.PositiveIntegerField()
    number = models.PositiveIntegerField()
    first_position = models.PositiveIntegerField()
    last_position = models.PositiveIntegerField()
    status = models.CharField(max_length=20, choices=[(status, status) for status in STATUSES])
    tool_names = JSONText(default=list)
    tool = models.CharField(max_length=100, db_default="", blank=True)
    """For searches: the tool of all its calls, or :data:`SEVERAL_TOOLS`. Empty without tool calls."""
    input_preview = models.CharField(max_length=200, blank=True)
    thought_preview = models.CharField(max_length=200, blank=True)
    call_preview = models.CharField(max_length=200, blank=True)
    result_preview = models.CharField(max_length=200, blank=True)
    tokens = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    total_tokens = models.PositiveBigIntegerField(default=0)
    total_errors = models.PositiveIntegerField(default=0)
    unpaired = models.PositiveIntegerField(default=0)
    unanswered = models.PositiveIntegerField(default=0)
    """Tool calls without a result."""
    kind = models.CharField(max_length=10, db_default="", blank=True)
    target = models.CharField(max_length=200, db_default="", blank=True)
    likely_failure = models.CharField(max_length=40, db_default="", blank=True)
    error_line = models.CharField(max_length=200, db_default="", blank=True)
    total_likely_failures = models.PositiveIntegerField(db_default=0)
    turn = models.PositiveIntegerField(db_default=0)
    turn_first = models.PositiveIntegerField(db_default=0)
    compactions = models.PositiveIntegerField(db_default=0)
    kind_totals = JSONText(default=dict, db_default="{}")
    excerpt = PackedText(null=True)
    """:class:`historyapp.core.excerpts.Excerpt` as JSON, or null until a snapshot of a context that reads
    the step is recorded. Lists do not load it."""

    objects = EpisodeQuerySet.as_manager()

    note: StepNote | None = None
    """The note on the step, if a list has read it."""
    named_file = ""  # the path in the call that a file filter found, if it is not the first call

    class Meta:
        indexes = (
            # These contain the time, so that a filter by time skips steps without reading their rows.
            models.Index(fields=("session", "number", "started_at"), name="episode_by_number"),
            models.Index(fields=("session", "tool", "number", "started_at"), name="episode_by_tool"),
            *(
                models.Index(
                    fields=("session", "number", "started_at"), name=name, condition=models.Q(status=status)
                )
                for status, name in zip(INDEXED_STATUSES, _STATUS_INDEXES, strict=True)
            ),
            models.Index(
                fields=("session", "number", "started_at"),
                name="episode_likely_failures",
                condition=models.Q(likely_failure__gt=""),
            ),
            models.Index(
                fields=("session", "target", "number"),
                name="episode_edits",
                condition=models.Q(kind="edit"),
            ),
        )

    def __str__(self) -> str:
        return f"step {self.number}"

    @classmethod
    def of(cls, session_id: UUID, step: Step) -> "Episode":
        return cls(session_id=session_id, anchor=step.anchor, **columns(step))


def columns(step: Step) -> dict[str, Any]:
    """A step's values for the row's columns, without its key and its excerpt."""
    values = step._asdict()
    for name in ("anchor", "pending", "statuses", "checks"):
        del values[name]
    values["tool_names"] = list(step.tool_names)
    values["tool"] = tool_of(step.tool_names)
    values["unanswered"] = len(step.pending)
    values["started_at"] = datetime.fromisoformat(step.started_at)
    values["finished_at"] = datetime.fromisoformat(step.finished_at) if step.finished_at else None
    return values


def tool_of(names: Sequence[str]) -> str:
    """The value of the column ``tool`` of a step with calls to these tools."""
    if not names:
        return ""
    return names[0] if names.count(names[0]) == len(names) else SEVERAL_TOOLS
