"""What an import tells of a file: its sessions, what was skipped and why reading ended."""

from dataclasses import dataclass, field
from uuid import UUID

from historyapp.core.importers.base import Skipped
from historyapp.services.imports.writer import Counts

MOST_SKIPPED = 1000
"""Skipped records that a report names; the rest are only counted."""


@dataclass(frozen=True, slots=True)
class SessionReport:
    """One session of a file: where it went and what the file says of it."""

    id: UUID
    source_id: str
    title: str
    new: bool
    counts: Counts

    @property
    def is_news(self) -> bool:
        """Whether this import made it or added to it. A fork is new even without an entry of its own."""
        return self.new or self.counts.added > 0


@dataclass(slots=True)
class FileReport:
    """What was read of one file, what was skipped and why."""

    name: str
    format: str = ""
    sessions: list[SessionReport] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    """The first 1,000."""
    skipped_count: int = 0
    damaged_count: int = 0
    error: str = ""
    """Why reading ended before the end, or why nothing could be read at all."""
    later: bool = False
    """Whether it ended because of the session's state, so that the same file may be imported later."""

    unknown: bool = False
    """Whether it is in no format that can be imported."""

    def skip(self, skipped: Skipped) -> None:
        self.skipped_count += 1
        self.damaged_count += skipped.damaged
        if len(self.skipped) < MOST_SKIPPED:
            self.skipped.append(skipped)

    @property
    def is_news(self) -> bool:
        """Whether anything came of the file."""
        return any(session.is_news for session in self.sessions)

    def total(self, name: str) -> int:
        """The sum of one of :class:`Counts`' figures over the file's sessions."""
        return sum(int(getattr(session.counts, name)) for session in self.sessions)
