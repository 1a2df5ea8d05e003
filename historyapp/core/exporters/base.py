"""The interface of exporters. An exporter writes one session as text in parts, so its length is not
limited by memory."""

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
    """The session's newest position when the summary was written."""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ExportNote:
    """A note on the step whose output has this position; without a text, a bookmark."""

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
    """Oldest first. If the exporter is ``live_only``: the live entries, including those of a fork's parent.
    Otherwise: all entries that were appended to this session, including rewinds."""
    head: int = 0
    """The newest position that is exported."""
    title: str = ""
    agent: str = ""
    model: str = ""
    tags: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    annotation: Mapping[str, Any] = field(default_factory=dict)
    """Note and score as JSON values. Empty if there are none, or if the exporter is ``live_only``."""
    forked_from: tuple[str, int] | None = None
    """The id of the parent, and the last position that both share."""
    spawned_by: str | None = None
    """The id of the session whose agent started this one."""
    created_at: datetime | None = None
    status: str = ""
    summaries: Iterable[ExportSummary] = ()
    notes: Iterable[ExportNote] = ()
    """Empty if the exporter is ``live_only``."""
    hides_inputs: bool = False
    """Whether people's texts are left out, if the exporter ``can_hide_inputs``."""


class Exporter(Protocol):
    """One format that sessions can be written in."""

    name: str
    """The name in the API, for example ``openai_messages``."""
    title: str
    """The name for people."""
    media_type: str
    suffix: str
    """The end of the file's name, with its dot."""
    live_only: bool
    """Whether it writes only live entries."""
    can_hide_inputs: bool
    """Whether it can leave out inputs and other texts of people, as share links do."""
    whole_steps: bool
    """Whether it holds all entries of a step in memory, see :mod:`historyapp.core.exporters.long_steps`."""

    def write(self, session: ExportSession, forks: Iterable[ExportSession] = ()) -> Iterator[str]:
        """The session as parts of a text, each encodable as UTF-8.

        Args:
            forks: its forks and their forks, each after its parent. Formats for one session ignore them.
        """
        ...
