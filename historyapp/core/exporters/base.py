"""The interface of exporters. An exporter writes one session as text in parts, so its length does not
matter."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from historyapp.core.entries import Entry


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """A summary of a range of positions."""

    first_position: int
    last_position: int
    text: str
    strategy: str = "manual"
    model: str = ""
    key_points: tuple[str, ...] = ()
    level: int = 1
    made_at: int | None = None
    """The session's newest position when it was made."""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ExportNote:
    """A bookmark on the step whose output has a position; with a text it is a note."""

    position: int
    text: str
    actor: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ExportSession:
    """A session to write. ``entries``, ``summaries`` and ``notes`` are read once, in order."""

    id: str
    entries: Iterable[Entry]
    """Oldest first: all that were appended to the session itself, rewinds included; or only the live ones,
    a fork's parent's included, where the exporter says ``live_only``."""
    title: str = ""
    agent: str = ""
    model: str = ""
    tags: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    annotation: Mapping[str, Any] = field(default_factory=dict)
    """Note and score as JSON values; empty without them, and if the exporter is ``live_only``."""
    forked_from: tuple[str, int] | None = None
    """Id of the parent, and the position up to which it is shared."""
    spawned_by: str | None = None
    """Id of the session whose agent started this one."""
    created_at: datetime | None = None
    status: str = ""
    summaries: Iterable[ExportSummary] = ()
    notes: Iterable[ExportNote] = ()
    """Empty if the exporter is ``live_only``."""


class Exporter(Protocol):
    """One format that sessions can be written in."""

    name: str
    """As in the API, for example ``openai_messages``."""
    title: str
    """For people."""
    media_type: str
    suffix: str
    """Of the file's name, with its dot."""
    live_only: bool
    """Whether it wants only live entries."""

    def write(self, session: ExportSession, forks: Iterable[ExportSession] = ()) -> Iterator[str]:
        """The session as parts of a text, each encodable as UTF-8.

        Args:
            forks: sessions forked from it, directly or not, each after its parent. Only formats that can
                hold several sessions write them.
        """
        ...
