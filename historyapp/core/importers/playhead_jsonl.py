"""Playhead's own export: a header for each session, then its entries, summaries and notes, one on each line.

It contains whole sessions, with takes. ``exporters/playhead_jsonl`` writes it.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any

from pydantic import ValidationError

from historyapp.core.entries import KINDS, EntryDraft, Rewind, load_body
from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import (
    AddNote,
    AddSummary,
    Append,
    Head,
    Operation,
    RewindTo,
    SessionStart,
    Skipped,
    Source,
)
from historyapp.core.importers.messages import moment
from historyapp.core.importers.records import LineCounter, SourceRecord, read_lines
from historyapp.core.json import listing, mapping, text

VERSION = 1
_ENVELOPE = {"session", "position", "kind", "metadata", "created_at"}
"""Fields of an entry's line outside its body."""


class _PlayheadJsonlImporter:
    name = "playhead_jsonl"
    title = "Playhead JSONL"

    def recognises(self, head: Head) -> bool:
        return any("playhead" in line and line.get("kind") == "session" for line in head.lines[:5])

    def read(self, source: Source) -> Iterator[Operation]:
        has_session = False
        for operation in _operations(source):
            has_session = has_session or isinstance(operation, SessionStart)  # a session may have no entries
            yield operation
        if not has_session:
            raise UnreadableTranscript(f"{source.name}: nothing in it can be read as {self.title}")


PLAYHEAD_JSONL = _PlayheadJsonlImporter()


class CopiedPositions:
    """The positions of one session's entries. A missing line leaves no gap: later positions decrease.

    Forks of forks can be many thousands deep. A lookup therefore skips most of them by their ``_jump``, as in
    Myers, "An applicative random-access stack" (1983). Its number of steps grows with the logarithm of the
    depth.
    """

    def __init__(self, parent: "CopiedPositions | None" = None, fork_point: int = 0) -> None:
        self._newest = fork_point
        """The newest position in the file."""
        self._count = parent[fork_point] if parent else 0
        """The position of that entry."""
        self._runs: list[tuple[int, int]] = []
        """For each run of lines without a gap, its first position in the file and that entry's position."""
        # Entries that the parent gets after this header are not in the fork.
        inherited = min(fork_point, parent._newest) if parent else 0
        self._parent, self._fork_point = parent._holder(inherited) if parent else (None, 0)
        """The nearest ancestor with an entry in the fork. Its own fork point is smaller than this one."""
        self._depth: int = self._parent._depth + 1 if self._parent else 0
        self._jump: CopiedPositions | None = self._parent._jump_of_children() if self._parent else None

    def _jump_of_children(self) -> "CopiedPositions":
        first = self._jump
        second = first._jump if first else None
        if first and second and self._depth - first._depth == first._depth - second._depth:
            return second
        return self

    def accept(self, position: int) -> bool:
        """Adds the entry at a position in the file. Returns false if the position is not after the last."""
        if position <= self._newest:
            return False
        self._count += 1
        if not self._runs or position > self._newest + 1:
            self._runs.append((position, self._count))
        self._newest = position
        return True

    def __getitem__(self, position: int) -> int:
        """The position of the entry at a position in the file, or of the entry before it if it is missing."""
        holder, position = self._holder(position)
        return holder._own(position) if holder else 0

    def _holder(self, position: int) -> tuple["CopiedPositions | None", int]:
        """This session or the ancestor that has the last entry up to a position, or None, and the position
        that the fork points between them leave."""
        holder: CopiedPositions | None = self
        while holder and not (holder._runs and holder._runs[0][0] <= position):
            position = min(position, holder._fork_point)
            jump = holder._jump
            holder = jump if jump and position <= jump._fork_point else holder._parent
        return holder, position

    def _own(self, position: int) -> int:
        index = bisect_right(self._runs, position, key=lambda run: run[0]) - 1
        start, actual = self._runs[index]
        end = self._runs[index + 1][1] - 1 if index + 1 < len(self._runs) else self._count
        return min(actual + position - start, end)


def _operations(source: Source) -> Iterator[Operation]:
    sessions: dict[str, CopiedPositions] = {}
    counter = LineCounter()
    for line in read_lines(source.stream, counter=counter):
        if isinstance(line, Skipped):
            yield line
            continue
        try:
            yield _operation(line, sessions)
        except ValidationError as fault:
            error = fault.errors(include_url=False, include_input=False)[0]
            path = ".".join(map(str, error["loc"]))
            yield Skipped(line.number, f"{text(line.data.get('kind'))} {path}: {error['msg']}")
        except ValueError as fault:
            yield Skipped(line.number, str(fault))
    yield from counter.end()


def _operation(line: SourceRecord, sessions: dict[str, CopiedPositions]) -> Operation:
    """The operation of a line.

    Raises:
        ValueError: if the line is invalid.
    """
    record, kind = line.data, line.data.get("kind")
    if kind == "session":
        return _session(record, sessions)
    id = text(record.get("session"))
    positions = sessions.get(id)
    if positions is None:
        raise ValueError("its session has no header")
    if kind == "summary":
        return _summary(record, id, positions)
    if kind == "note":
        return _note(record, id, positions)
    if kind not in KINDS:
        raise ValueError(f"unknown kind of entry {str(kind)[:40]!r}")
    body = load_body(kind, {name: value for name, value in record.items() if name not in _ENVELOPE})
    draft = EntryDraft(body, moment(record.get("created_at"), UTC), mapping(record.get("metadata")))
    if not positions.accept(_number(record, "position")):
        raise ValueError(f"position {record['position']} is not after the one before it")
    if isinstance(body, Rewind):
        to_position = positions[body.to_position]
        return RewindTo(id, to_position, body.reason or "", body.actor or "", draft)
    return Append(id, draft)


def _session(record: Mapping[str, Any], sessions: dict[str, CopiedPositions]) -> SessionStart:
    if _number(record, "playhead") > VERSION:
        raise UnreadableTranscript("This file was made by a newer version of Playhead.")
    id = text(record.get("id"))
    if not id or id in sessions:
        raise ValueError("a session without an id, or with the id of another session")
    forked_from = None
    parent, fork_point = (*listing(record.get("forked_from")), None, None)[:2]
    if isinstance(parent, str) and parent in sessions and isinstance(fork_point, int):
        sessions[id] = CopiedPositions(sessions[parent], fork_point)
        forked_from = (parent, sessions[parent][fork_point])
    else:
        sessions[id] = CopiedPositions()
    return SessionStart(
        id,
        title=text(record.get("title")),
        agent=text(record.get("agent")),
        model=text(record.get("model")),
        tags=tuple(tag for tag in listing(record.get("tags")) if isinstance(tag, str)),
        forked_from=forked_from,
        spawned_by=text(record.get("spawned_by")) or None,
        settings=mapping(record.get("settings")),
        metadata=mapping(record.get("metadata")),
        annotation=mapping(record.get("annotation")),
        created_at=moment(record.get("created_at"), UTC),
        status=text(record.get("status")),
    )


def _summary(record: Mapping[str, Any], session: str, positions: CopiedPositions) -> AddSummary:
    first, last = _number(record, "first_position"), _number(record, "last_position")
    made_at = _number(record, "made_at") if record.get("made_at") is not None else None
    level = record.get("level", 1)
    return AddSummary(
        session,
        positions[first],
        positions[last],
        text(record.get("text")),
        strategy=text(record.get("strategy")) or "manual",
        model=text(record.get("model")),
        key_points=tuple(point for point in listing(record.get("key_points")) if isinstance(point, str)),
        level=level if level in (1, 2, 3) else 1,
        made_at=positions[made_at] if made_at else None,
        created_at=moment(record.get("created_at"), UTC),
    )


def _note(record: Mapping[str, Any], session: str, positions: CopiedPositions) -> AddNote:
    return AddNote(
        session,
        positions[_number(record, "position")],
        text(record.get("text")),
        text(record.get("actor")),
        moment(record.get("created_at"), UTC),
        moment(record.get("updated_at"), UTC),
    )


def _number(record: Mapping[str, Any], name: str) -> int:
    value = record.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} is not a positive number")
    return value
