"""Finds the next failure, turn of a person, edit of a file, compaction or take.

Each search starts at a step and stops at the first hit. It uses an index and reads a bounded number of rows,
so its cost does not depend on the length of the session.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import merge
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Q

from historyapp.core.call_subjects import command_line
from historyapp.core.command_files import MAX_COMMAND, MAX_PARSED, files_written, may_use_files
from historyapp.core.dates import known_time
from historyapp.core.entries import INTERRUPTION, PERSON, ModelOutput, load_body, marks_compaction
from historyapp.core.json import load_dumped
from historyapp.core.lineage import Span
from historyapp.core.person_inputs import TURN_ABORTED, begins_turn
from historyapp.models.entries import page_sizes, span_batches
from historyapp.models.episodes import Episode, live_rows
from historyapp.models.fields import as_uuid, session_value, unpack, uuid_value
from historyapp.models.history import History
from historyapp.models.long_rows import long_rows
from historyapp.models.sessions import Session
from historyapp.models.short_entries import short_entries
from historyapp.models.sql import RowPlace, fetch_all
from historyapp.models.step_filters import FAILED, StepFilter, StepSearch
from historyapp.models.takes import takes

MAX_ROWS = 2_000
"""The maximum number of rows that one search reads."""
MAX_TEXT = 1 << 24
"""The maximum number of characters of their bodies."""
MAX_SEARCHES = 10
"""Batches of a search for failures. In most sessions the first one finds the step."""
_OWN_FAILURES = 10
"""Failed and likely failed steps of a session that was rewound, among which the first live one is sought."""
_COMMANDS = 200
"""The maximum number of steps with commands whose files one search reads."""
_PAGE = 64
_ROWS = "SELECT position, body, totals FROM historyapp_entry WHERE "
IsMark = Callable[[str, Mapping[str, Any]], bool]
"""Whether an entry with this kind and stored body is a hit."""


class Landmark(NamedTuple):
    """The step that was found, or where the search stopped."""

    step: int | None
    """None if there is no hit up to ``searched_to``."""
    searched_to: int | None = None
    """The step from which the next search continues. None if the search reached the end."""


NOWHERE = Landmark(None)


def has_later_failure(history: History, step: int, *, likely: bool = True) -> bool:
    """Whether a step after ``step`` failed or likely failed, from the running totals.

    Args:
        step: 0 for the start of the history.
        likely: if False, only steps that ended in an error count.
    """
    newest = history.newest_shown
    if newest is None or step >= newest.number:
        return False
    row = (history.known_rows.get(step) or history.row(step)) if step else None
    if newest.total_errors != (row.total_errors if row else 0):
        return True
    return likely and newest.total_likely_failures != (row.total_likely_failures if row else 0)


def failure(history: History, start: int, forwards: bool) -> Landmark:
    """The nearest step that failed or likely failed."""
    return _first_with(history, StepFilter(FAILED), start, forwards)


def error(history: History, start: int, forwards: bool) -> Landmark:
    """The nearest step that ended in an error."""
    return _first_with(history, StepFilter("error"), start, forwards)


_FAILURES = " UNION ALL ".join(
    "SELECT * FROM (SELECT session_id, anchor, number FROM historyapp_episode"  # noqa: S608 no values
    f" WHERE session_id = %s AND {condition} ORDER BY number LIMIT {{limit}}) AS {name}_{{part}}"
    for name, condition in (("errors", "status = 'error'"), ("likely", "likely_failure > ''"))
)


def first_failures(sessions: Sequence[Session]) -> dict[UUID, datetime]:
    """When the first step that failed or likely failed ended in each session, where that is known.

    Takes two queries. Only each session's own rows are compared. After a rewind, only the first few are: the
    time is unknown if none of them is live.

    Args:
        sessions: at most 250, because SQLite has a limit of 500 parts in such a query.
    """
    if not sessions:
        return {}
    limits = [1 if session.tail_start == 1 else _OWN_FAILURES for session in sessions]
    parts = [_FAILURES.format(part=part, limit=limit) for part, limit in enumerate(limits)]
    found: dict[UUID, list[RowPlace]] = {session.pk: [] for session in sessions}
    for id, *row in fetch_all(" UNION ALL ".join(parts), [uuid_value(id) for id in found for _ in range(2)]):
        found[as_uuid(id)].append(RowPlace(as_uuid(id), *row))
    first = list[RowPlace]()
    for session in sessions:
        rows = found[session.pk]
        live = live_rows(rows, session.lineage()) if rows and session.tail_start != 1 else rows
        first += sorted(live, key=attrgetter("number"))[:1]
    times = {
        row.session_id: known_time(row.finished_at or row.started_at) for row in Episode.objects.at(first)
    }
    return {id: moment for id, moment in times.items() if moment}


def _first_with(history: History, step_filter: StepFilter, start: int, forwards: bool) -> Landmark:
    search, cursor = StepSearch(history, step_filter, _beyond(history, start, forwards)), None
    for _ in range(MAX_SEARCHES):
        matches = search.find(1, cursor)
        if matches.rows:
            return Landmark(matches.rows[0].number)
        cursor = matches.more
        if cursor is None:
            return NOWHERE
    return Landmark(None, cursor.number if cursor else None)


def _beyond(history: History, start: int, forwards: bool) -> range:
    """The numbers of the steps after or before a step, nearest first."""
    return range(start + 1, history.steps + 1) if forwards else range(start - 1, 0, -1)


def turn(history: History, start: int, forwards: bool) -> Landmark:
    """The nearest step that follows an input from a person."""
    return _after_mark(
        history,
        ("model_input",),
        lambda _kind, body: begins_turn(body.get("channel", PERSON), body.get("content")),
        start,
        forwards,
    )


def compaction(history: History, start: int, forwards: bool) -> Landmark:
    """The nearest step before which the agent compacted its context, according to its transcript."""
    return _after_mark(
        history,
        ("model_input", "debug_log"),
        lambda kind, body: marks_compaction(
            kind, str(body.get("category" if kind == "debug_log" else "channel", ""))
        ),
        start,
        forwards,
    )


def interruption(history: History, start: int, forwards: bool) -> Landmark:
    """The nearest step after which a person interrupted the model."""
    return _after_mark(history, ("model_input", "debug_log"), _marks_interruption, start, forwards, ahead=0)


def _marks_interruption(kind: str, body: Mapping[str, Any]) -> bool:
    if kind == "debug_log":
        return body.get("category") == TURN_ABORTED
    return kind == "model_input" and body.get("channel") == INTERRUPTION


def edit(history: History, start: int, forwards: bool) -> Landmark:
    """The nearest step whose first tool call edits the same file as the first tool call of step ``start``.

    For a command that writes a file: the nearest command that writes it.
    """
    file = edited_file(history, start)
    if not file:
        return NOWHERE
    if history.row(start).kind == "shell":
        return _next_write(history, file, start, forwards)
    owners = map(UUID, history.lineage.owners)
    beyond = Q(number__gt=start, number__lte=history.steps) if forwards else Q(number__lt=start)
    edits = Episode.objects.filter(beyond, session_id__in=owners, kind="edit", target=file)
    edits = edits.order_by("number" if forwards else "-number")
    for limit in (_PAGE, MAX_ROWS):  # takes reuse numbers, so that the nearest rows may not be live
        places = list(edits.values_list("session_id", "anchor", "number")[:limit])
        live = live_rows(map(RowPlace._make, places), history.lineage)
        if live:
            return Landmark(live[0 if forwards else -1].number)
        if len(places) < limit:
            break
    return NOWHERE


def edited_file(history: History, step: int) -> str:
    """The file that a step's first tool call edits, up to 200 characters. Empty if it edits no file.

    For a command: the first file that its command line writes.
    """
    row = history.row(step)
    if row.kind != "shell":
        return row.target if row.kind == "edit" else ""
    return next(chain.from_iterable(map(files_written, _commands(row))), "")


def _next_write(history: History, file: str, start: int, forwards: bool) -> Landmark:
    """The nearest step with a command that writes a file, among the steps that name it."""
    step_filter = StepFilter(kind="shell", file=file.rpartition("/")[2])
    search, cursor = StepSearch(history, step_filter, _beyond(history, start, forwards)), None
    for _ in range(MAX_SEARCHES):
        matches, parsed = search.find(_COMMANDS, cursor), 0
        for row in matches.rows:
            for command in _commands(row):
                parsed += min(len(command), MAX_COMMAND)
                if any(_is_same_file(written, file) for written in files_written(command)):
                    return Landmark(row.number)
            if parsed > MAX_PARSED:
                return Landmark(None, row.number)
        cursor = matches.more
        if cursor is None:
            return NOWHERE
        if matches.rows or search.listed.parsed > MAX_PARSED:
            break
    return Landmark(None, cursor.number if cursor else None)


def _is_same_file(name: str, other_name: str) -> bool:
    """Whether two names of a file may mean the same: one of them may be relative to a folder."""
    return f"/{name}".endswith(f"/{other_name}") or f"/{other_name}".endswith(f"/{name}")


def _commands(row: Episode) -> Iterator[str]:
    """The command lines of a step's tool calls that may write files, up to :data:`MAX_PARSED` characters."""
    parsed = 0
    for entry in short_entries([Span(str(row.session_id), row.first_position, row.first_position)]):
        output = load_body(entry.kind, entry.body)
        if isinstance(output, ModelOutput):
            for tool_call in output.tool_calls or filter(None, (output.use_tool,)):
                command = command_line(tool_call.arguments)
                if not may_use_files(command):
                    continue
                parsed += min(len(command), MAX_COMMAND)
                if parsed > MAX_PARSED:
                    return
                yield command


def take(history: History, start: int, forwards: bool) -> Landmark:
    """The nearest step where one of the newest takes branches off."""
    steps = sorted({max(1, cut.after_step) for cut in takes(history)}, reverse=not forwards)
    beyond = (step for step in steps if (step > start if forwards else step < start))
    return Landmark(next(beyond, None))


class _MarkedEntry(NamedTuple):
    position: int
    kind: str
    """Empty if the entry is not live."""
    steps: int
    """The step before the entry."""
    body: Mapping[str, Any]
    size: int
    """Characters of the body."""


def _after_mark(
    history: History, kinds: Sequence[str], is_mark: IsMark, start: int, forwards: bool, *, ahead: int = 1
) -> Landmark:
    """The step after the nearest entry for which ``is_mark`` is true; with ``ahead=0`` the step before it."""
    position = history.row(start).first_position
    streams = [_marks(history, kind, position, forwards=forwards) for kind in kinds]
    rows = merge(*streams, key=attrgetter("position"), reverse=not forwards)
    step, size = start, 0
    for count, row in enumerate(rows, 1):
        size += row.size
        step = max(1, row.steps + ahead)
        if step > history.steps:  # no step follows it
            return NOWHERE
        if step != start and is_mark(row.kind, row.body):
            return Landmark(step)
        if count == MAX_ROWS or size > MAX_TEXT:  # the step's other entries have not been read
            reached = step - 1 if forwards else step + 1
            return Landmark(None, step if reached == start else reached)  # the next search starts elsewhere
    return NOWHERE


def _marks(history: History, kind: str, from_position: int, *, forwards: bool) -> Iterator[_MarkedEntry]:
    """Entries of a rare kind after or before a position, nearest first, read lazily."""
    lineage, order = history.lineage, "position" if forwards else "position DESC"
    for batch in span_batches(_spans(history, kind, from_position, forwards=forwards)):
        where = " OR ".join(["session_id = %s AND position BETWEEN %s AND %s"] * len(batch))
        values = [value for span in batch for value in (session_value(span.session), span.first, span.last)]
        for start, size in page_sizes():
            # The kind is not a parameter: SQLite would not use the kind's index.
            statement = f"{_ROWS}({where}) AND kind = '{kind}' ORDER BY {order} LIMIT {size} OFFSET {start}"
            read = 0
            for position, packed, totals in long_rows(statement, values, order):
                is_live = lineage.session_at(position) is not None
                steps, body = load_dumped(totals).get("steps", 0), unpack(packed)
                yield _MarkedEntry(position, kind if is_live else "", steps, load_dumped(body), len(body))
                read += 1
            if read < size:
                break


def _spans(history: History, kind: str, position: int, *, forwards: bool) -> Iterable[Span]:
    lineage = history.lineage
    first, last = (position + 1, lineage.last) if forwards else (1, position - 1)
    if not lineage.older:
        return lineage.between(first, last, newest_first=not forwards)
    # Thousands of spans would take hundreds of queries. One range for each session includes entries of takes.
    parts = [span for span in history.session.parts_with(kind, last) if span.last >= first]
    clipped = [Span(span.session, max(first, span.first), min(last, span.last)) for span in parts]
    return clipped[::-1] if forwards else clipped
