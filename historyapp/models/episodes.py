"""Steps' rows: what lists show of a step without loading the bodies of its entries."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import count
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from django.db import models

from historyapp.core.episodes import STATUSES
from historyapp.core.json import dump_json
from historyapp.core.lineage import Lineage
from historyapp.core.projection import Step
from historyapp.models.fields import JSONText, PackedText
from historyapp.models.sessions import Session, session_ids
from historyapp.models.sql import OutlineRow

_FAILED_AT_ONCE = 50
INDEXED_STATUSES = ("error", "interrupted_by_human", "answered", "abandoned")
"""Each has its own index. Most steps end as ``success`` and write to none."""
_STATUS_INDEXES = ("episode_errors", "episode_interrupted", "episode_answered", "episode_abandoned")
SEVERAL_TOOLS = "\n"
"""The tool of a step that called different tools. No tool has this name."""


class StepSample(NamedTuple):
    """The columns from which a picture of a long session is drawn; whole rows would cost more."""

    session_id: UUID
    anchor: int
    number: int
    status: str
    tool_names: list[str]
    tokens: int
    total_tokens: int
    total_errors: int


Row = TypeVar("Row", "Episode", StepSample, OutlineRow)


class EpisodeQuerySet(models.QuerySet["Episode"]):
    """Takes reuse step numbers, so :func:`live_rows` drops the rows that are not live."""

    def numbered(self, lineage: Lineage, first: int, last: int) -> list["Episode"]:
        """Live steps ``first`` to ``last``, oldest first. Costs what the range costs."""
        rows = self.filter(session_id__in=session_ids(lineage), number__range=(first, last))
        return live_rows(rows.defer("excerpt"), lineage)

    def failed_after(self, lineage: Lineage, number: int, last: int) -> Iterator[int]:
        """Numbers of live steps after ``number``, up to ``last``, that ended in an error, in order."""
        rows = self.filter(
            session_id__in=session_ids(lineage), status="error", number__gt=number, number__lte=last
        )
        # In pages: PostgreSQL computes the whole result before it streams, and most callers want one row.
        ordered = rows.defer("excerpt").order_by("number", "session", "anchor")
        for start in count(0, _FAILED_AT_ONCE):
            page = list(ordered[start : start + _FAILED_AT_ONCE])
            yield from (row.number for row in page if is_live_row(lineage, str(row.session_id), row.anchor))
            if len(page) < _FAILED_AT_ONCE:
                return


def is_live_row(lineage: Lineage, session: str, anchor: int) -> bool:
    """Whether the row's anchor is live, or the lineage goes on after the rewind or fork that made the row."""
    return lineage.contains(session, anchor) or lineage.starts_at(session, anchor + 1)


def live_rows(rows: Iterable[Row], lineage: Lineage) -> list[Row]:
    """The live rows, one for each number: the last one, which is of the step as a rewind or fork cut it."""
    order = {session: index for index, session in enumerate(lineage.sessions)}
    live = [row for row in rows if is_live_row(lineage, str(row.session_id), row.anchor)]
    live.sort(key=lambda row: (row.number, row.anchor, order[str(row.session_id)]))
    return list({row.number: row for row in live}.values())


class Episode(models.Model):
    """The row of :class:`historyapp.core.projection.Step`. Its columns are explained there."""

    pk = models.CompositePrimaryKey("session", "anchor")
    session = models.ForeignKey(Session, models.CASCADE, related_name="episodes", db_index=False)
    anchor = models.PositiveIntegerField()
    number = models.PositiveIntegerField()
    first_position = models.PositiveIntegerField()
    last_position = models.PositiveIntegerField()
    status = models.CharField(max_length=20, choices=[(status, status) for status in STATUSES])
    tool_names = JSONText(default=list)
    tool = models.CharField(max_length=100, db_default="", blank=True)
    """The tool of all its tool calls, or :data:`SEVERAL_TOOLS`; empty without tool calls. For searching."""
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
    """Tool calls without a result so far."""
    excerpt = PackedText(null=True)
    """:class:`historyapp.core.excerpts.Excerpt` as JSON. Null: not computed yet. Lists do not load it."""

    objects = EpisodeQuerySet.as_manager()

    class Meta:
        indexes = (
            # With the time: a filter by time then skips steps without reading their rows.
            models.Index(fields=("session", "number", "started_at"), name="episode_by_number"),
            models.Index(fields=("session", "tool", "number", "started_at"), name="episode_by_tool"),
            *(
                models.Index(
                    fields=("session", "number", "started_at"), name=name, condition=models.Q(status=status)
                )
                for status, name in zip(INDEXED_STATUSES, _STATUS_INDEXES, strict=True)
            ),
        )

    def __str__(self) -> str:
        return f"step {self.number}"

    @classmethod
    def of(cls, session_id: UUID, step: Step) -> "Episode":
        return cls(session_id=session_id, anchor=step.anchor, **columns(step))


def columns(step: Step) -> dict[str, Any]:
    """A step's values for the row's columns, without its key."""
    values = step._asdict()
    for name in ("anchor", "pending", "statuses"):
        del values[name]
    values["tool_names"] = list(step.tool_names)
    values["tool"] = tool_of(step.tool_names)
    values["unanswered"] = len(step.pending)
    values["excerpt"] = dump_json(step.excerpt.dump()) if step.excerpt else None
    values["started_at"] = datetime.fromisoformat(step.started_at)
    values["finished_at"] = datetime.fromisoformat(step.finished_at) if step.finished_at else None
    return values


def tool_of(names: Sequence[str]) -> str:
    """The value of the column ``tool`` for a step that called these tools."""
    if not names:
        return ""
    return names[0] if names.count(names[0]) == len(names) else SEVERAL_TOOLS
