"""Episode rows: what lists show of a step without loading its bodies."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import count
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from django.db import models

from historyapp.core.episodes import STATUSES
from historyapp.core.json import dump_json
from historyapp.core.lineage import Lineage
from historyapp.core.projection import Step
from historyapp.models.fields import JSONText, PackedText
from historyapp.models.sessions import Session, session_ids
from historyapp.models.sql import OutlineRow, outline_rows

_FAILED_AT_ONCE = 50
INDEXED_STATUSES = ("error", "interrupted_by_human", "answered", "abandoned")
"""Each has an index of its own: most steps end as ``success``, and pay for none."""
_STATUS_INDEXES = ("episode_errors", "episode_interrupted", "episode_answered", "episode_abandoned")
SEVERAL = "\n"
"""In place of the tool of a step that called different ones: no tool is named like this."""


class StepSample(NamedTuple):
    """What a picture of a long session needs of a step; reading hundreds of whole rows would cost more."""

    session_id: UUID
    anchor: int
    number: int
    status: str
    tool_names: list[str]
    tokens: int
    total_tokens: int
    total_errors: int


class _Row(Protocol):
    """A step's row, or enough of it to tell whether it is live."""

    @property
    def session_id(self) -> UUID: ...
    @property
    def anchor(self) -> int: ...
    @property
    def number(self) -> int: ...


Row = TypeVar("Row", bound=_Row)


class EpisodeQuerySet(models.QuerySet["Episode"]):
    def numbered(self, lineage: Lineage, first: int, last: int) -> list["Episode"]:
        """Live steps ``first`` to ``last``, oldest first. Costs what the range costs.

        Takes use the same numbers again, so rows that are not live are dropped here. Where a rewind or a fork
        cut the history, the row that was made for the cut step (the later anchor) stands for it.
        """
        rows = self.filter(session_id__in=session_ids(lineage), number__range=(first, last))
        return _standing(rows.defer("excerpt"), lineage)

    def sampled(self, lineage: Lineage, numbers: Iterable[int]) -> list[StepSample]:
        """The live steps with these numbers, oldest first. Running totals tell what lies between them."""
        rows = self.filter(session_id__in=session_ids(lineage), number__in=list(numbers))
        return _standing((StepSample(*row) for row in rows.values_list(*StepSample._fields)), lineage)

    def standing(self, lineage: Lineage, numbers: Iterable[int]) -> list["Episode"]:
        """The live steps with these numbers, oldest first, whole rows."""
        rows = self.filter(session_id__in=session_ids(lineage), number__in=list(numbers))
        return _standing(rows.defer("excerpt"), lineage)

    def placed(self, lineage: Lineage, first: int, last: int) -> list[OutlineRow]:
        """As :meth:`numbered`, of many steps: whole rows would take most of the time."""
        return _standing(outline_rows(session_ids(lineage), first, last), lineage)

    def failed_after(self, lineage: Lineage, number: int, last: int) -> Iterator[int]:
        """Numbers of live steps after ``number``, up to ``last``, that ended in an error, in order."""
        rows = self.filter(
            session_id__in=session_ids(lineage), status="error", number__gt=number, number__lte=last
        )
        # In pages: PostgreSQL works out the whole of what it streams, and most callers want the first.
        ordered = rows.defer("excerpt").order_by("number", "session", "anchor")
        for start in count(0, _FAILED_AT_ONCE):
            page = list(ordered[start : start + _FAILED_AT_ONCE])
            yield from (row.number for row in page if _is_live(row, lineage))
            if len(page) < _FAILED_AT_ONCE:
                return


def _standing(found: Iterable[Row], lineage: Lineage) -> list[Row]:
    """For each number the row that stands for it in the lineage."""
    order = {session: index for index, session in enumerate(lineage.sessions)}
    rows = [row for row in found if _is_live(row, lineage)]
    rows.sort(key=lambda row: (row.number, row.anchor, order[str(row.session_id)]))
    return list({row.number: row for row in rows}.values())


def _is_live(row: _Row, lineage: Lineage) -> bool:
    """A row holds where its anchor is live, or where the lineage goes on from the cut that made it."""
    session = str(row.session_id)
    return lineage.contains(session, row.anchor) or lineage.starts_at(session, row.anchor + 1)


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
    """The one that all its calls name, to find steps by; see :data:`SEVERAL`. Empty without calls."""
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
    """Calls without a result so far."""
    excerpt = PackedText(null=True)
    """:class:`historyapp.core.excerpts.Excerpt` as JSON. Null: not worked out yet. Lists do not load it."""

    objects = EpisodeQuerySet.as_manager()

    class Meta:
        indexes = (
            # With the time, so that steps of another time are passed over within the index.
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
    values["excerpt"] = stored_excerpt(step)
    values["started_at"] = datetime.fromisoformat(step.started_at)
    values["finished_at"] = datetime.fromisoformat(step.finished_at) if step.finished_at else None
    return values


def tool_of(names: Sequence[str]) -> str:
    """What the column ``tool`` holds for a step that called these tools."""
    if not names:
        return ""
    return names[0] if names.count(names[0]) == len(names) else SEVERAL


def stored_excerpt(step: Step) -> str | None:
    """A step's excerpt as its column has it."""
    return dump_json(step.excerpt.dump()) if step.excerpt else None
