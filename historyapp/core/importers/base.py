"""What an importer is: it reads one transcript file and yields, in order, the operations on its sessions.

Importers know nothing of storage. They yield operations as they read, so that a file of any size passes
through a fixed amount of memory; ``historyapp.services.imports.files`` carries the operations out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple, Protocol

from historyapp.core.entries import EntryDraft


@dataclass(frozen=True, slots=True)
class SessionStart:
    """Announces a session of the file. Comes before its first other operation."""

    session: str
    """The session's id in the source: stable across copies and growth of the file, unique in its format."""
    title: str = ""
    agent: str = ""
    model: str = ""
    tags: tuple[str, ...] = ()
    spawned_by: str | None = None
    """Source id of the session whose agent started this one (a sub-agent)."""
    partial_copy: str | None = None
    """Source id under which another transcript holds a part of this session. This one replaces it."""
    whole_copy: str | None = None
    """Source id under which another transcript holds this session in full. This one holds a part."""
    forked_from: tuple[str, int] | None = None
    """Source id of the parent, announced earlier in the same file, and the last position that is shared."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Session settings that differ from the defaults."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Further facts from the source: working folder, version, totals …"""
    annotation: Mapping[str, Any] = field(default_factory=dict)
    """Note and score as the file has them. Only in Playhead's own export, like what follows."""
    created_at: datetime | None = None
    status: str = ""


class Append(NamedTuple):
    """One entry for a session."""

    session: str
    draft: EntryDraft
    provisional: bool = False
    """Written out only because the file ended: a grown copy of the file may give another entry here."""


@dataclass(frozen=True, slots=True)
class RewindTo:
    """The session goes on from an earlier position, which may lie in a take; what is cut off stays as a take.

    Positions count as in the log: within a session each ``Append`` and each ``RewindTo`` takes the next one,
    from 1, or in a fork from the position after its fork point. 0: from before the first entry.
    """

    session: str
    to_position: int
    reason: str = ""
    actor: str = ""
    draft: EntryDraft | None = None
    """Only for Playhead's own export: the rewind entry's time and metadata."""


@dataclass(frozen=True, slots=True)
class AddSummary:
    """A summary that the file holds for a range of positions."""

    session: str
    first_position: int
    last_position: int
    text: str
    strategy: str = "manual"
    model: str = ""
    key_points: tuple[str, ...] = ()
    level: int = 1
    """1: one episode, 2: a range, 3: a digest of ranges."""
    made_at: int | None = None
    """The newest position when it was made; None if the source does not say: now."""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AddNote:
    """A bookmark or note that the file holds on the step whose output has a position."""

    session: str
    position: int
    text: str = ""
    """Empty: a bookmark."""
    actor: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that could not be used. Everything readable around it is still imported."""

    line: int
    """1-based line of the file; for a single JSON document, the record's 1-based index."""
    reason: str
    damaged: bool = True
    """False if the record is well formed but says nothing that belongs in a history."""


Operation = SessionStart | Append | RewindTo | AddSummary | AddNote | Skipped


@dataclass(frozen=True, slots=True)
class Source:
    """A transcript to read. ``stream`` is seekable; importers read it from the start."""

    name: str
    """The file's name, for messages and for formats that keep their session id there."""
    stream: BinaryIO
    folder: str = ""
    """The folder the file lies in, if there is one."""


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a file, enough to tell its format."""

    name: str
    lines: tuple[Mapping[str, Any], ...]
    """The JSON objects among its first lines, each from a line of its own."""
    document: Any = None
    """The whole file as one JSON value, where it is one and not line-delimited; otherwise null."""


class Importer(Protocol):
    """One transcript format."""

    name: str
    """As in the API and in ``--format``, for example ``claude_code``."""
    title: str
    """For people, for example ``Claude Code session``."""

    def recognises(self, head: Head) -> bool:
        """Whether the file looks like this format."""
        ...

    def read(self, source: Source) -> Iterator[Operation]:
        """The file's operations, in order.

        Raises:
            UnreadableTranscript: when nothing of the file can be read in this format.
        """
        ...
