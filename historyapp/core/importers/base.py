"""The interface of importers. An importer reads one transcript file and yields operations on its sessions.

Importers do not use the database. They yield operations while they read, so that a file of any size needs a
fixed amount of memory. ``historyapp.services.imports.files`` executes the operations.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple, Protocol

from historyapp.core.entries import EntryDraft

MAX_SESSION_ID = 300
"""Characters of a session's id in the source. Those of harnesses have at most a hundred, with the names of
folders. Each entry of the session repeats it, and so do the ids of tool calls that have none."""


@dataclass(frozen=True, slots=True)
class SessionStart:
    """The first operation of a session."""

    session: str
    """The session's id in the source: unique in its format, and equal in copies and longer files."""
    title: str = ""
    agent: str = ""
    model: str = ""
    tags: tuple[str, ...] = ()
    spawned_by: str | None = None
    """Source id of the session whose agent started this one as a sub-agent."""
    partial_copy: str | None = None
    """Source id of another transcript with a part of this session. This session replaces it."""
    whole_copy: str | None = None
    """Source id of the transcript with the whole session, if this one is only a part of it."""
    forked_from: tuple[str, int] | None = None
    """Source id of the parent, which starts earlier in the same file, and the last shared position."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Session settings that differ from the defaults."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Other facts from the source, such as working folder, version and totals."""
    annotation: Mapping[str, Any] = field(default_factory=dict)
    """Note and score. Only Playhead's own export has these and the following fields."""
    created_at: datetime | None = None
    status: str = ""
    left_out: tuple[str, ...] = ()
    """What an import leaves out of the fields above because of its size, as texts for its report."""
    dumped: str = ""
    """Settings, metadata and annotation as one JSON object, while an import keeps the headers of a file: as
    values, nested lists take 44 times as much memory. Then those fields are empty."""


class Append(NamedTuple):
    """One entry for a session."""

    session: str
    draft: EntryDraft
    provisional: bool = False
    """Yielded only because the file ended: a longer copy of the file may have another entry here."""


@dataclass(frozen=True, slots=True)
class RewindTo:
    """A rewind to an earlier position, which may be in a take. The entries that are cut off become a take.

    Positions count as in the log: each ``Append`` and each ``RewindTo`` of a session takes the next position,
    starting at 1, or in a fork at the position after its fork point. 0 is before the first entry.
    """

    session: str
    to_position: int
    reason: str = ""
    """Part of the stored digest: with another text, importing the file again would rewind the session."""
    actor: str = ""
    draft: EntryDraft | None = None
    """The time and metadata of the rewind entry. Only Playhead's own export has them."""


@dataclass(frozen=True, slots=True)
class AddSummary:
    """A summary of a range of positions."""

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
    """The newest position when it was made, or None for the position at the import."""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AddNote:
    """A bookmark or note on the step whose output is at a position."""

    session: str
    position: int
    text: str = ""
    """Empty for a bookmark."""
    actor: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that is not imported."""

    line: int
    """1-based line of the file; for a single JSON document, the record's 1-based index."""
    reason: str
    damaged: bool = True
    """False if the record is valid and contains nothing for the history."""


@dataclass(frozen=True, slots=True)
class LinesRead:
    """The last operation of a file of JSON lines that was read line by line to its end."""

    total: int
    blank: int


Operation = SessionStart | Append | RewindTo | AddSummary | AddNote | Skipped | LinesRead


@dataclass(frozen=True, slots=True)
class Source:
    """A transcript file. ``stream`` is seekable, and importers read it from its start."""

    name: str
    """The file's name. Some formats have the session id only there."""
    stream: BinaryIO
    folder: str = ""
    """The folder of the file, or empty."""


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a file, which shows its format."""

    name: str
    lines: tuple[Mapping[str, Any], ...]
    """The JSON objects in its first lines, one in each line."""
    document: Any = None
    """The whole file, if it is one JSON value; None if it is line-delimited."""


class Importer(Protocol):
    """One transcript format."""

    name: str
    """The name in the API and in ``--format``, for example ``claude_code``."""
    title: str
    """The label for users, for example ``Claude Code session``."""

    def recognises(self, head: Head) -> bool:
        """Whether the file has this format."""
        ...

    def read(self, source: Source) -> Iterator[Operation]:
        """The file's operations, in order.

        Raises:
            UnreadableTranscript: if nothing in the file can be read in this format.
        """
        ...
