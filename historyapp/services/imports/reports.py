"""The report on an imported file: its sessions, the skipped records, and the error that ended the import."""

from dataclasses import dataclass, field
from uuid import UUID

from historyapp.core.conversation import Progress
from historyapp.core.entries import ModelOutput, ToolResults
from historyapp.core.importers.base import Append, Operation, RewindTo, Skipped
from historyapp.services.imports.lines import FileLines

MAX_SKIPPED = 1000
"""A report lists at most this many skipped records and counts all of them."""
MAX_REASONS = 100
"""A report counts the records that were skipped for each of the first reasons."""
MAX_LISTED = 5
"""The number of lines that are listed for each reason."""


@dataclass(slots=True)
class Counts:
    """The content of a session in a transcript, whether this import or an earlier one has stored it."""

    entries: int = 0
    steps: int = 0
    calls: int = 0
    """Tool calls."""
    results: int = 0
    unpaired_calls: int = 0
    """Tool calls without a result."""
    unpaired_results: int = 0
    """Results without a tool call in their step."""
    added: int = 0
    """Entries that this import added to the log, rewinds included."""
    progress: Progress = field(default_factory=Progress)

    def add(self, operation: Operation) -> None:
        if isinstance(operation, RewindTo):
            self.end_step()
        if not isinstance(operation, Append):
            return
        self.entries += 1
        body = operation.draft.body
        if isinstance(body, ModelOutput):
            self.end_step()
            self.steps += 1
            self.progress = Progress.begin(body)
            self.calls += len(body.tool_calls) or bool(body.use_tool)
        elif isinstance(body, ToolResults):
            self.results += len(body.results)
            self.progress, answered = self.progress.add_results(body.results)
            self.unpaired_results += sum(not calls for _, calls in answered)

    def end_step(self) -> None:
        """Counts the tool calls that are still open. No later result can answer them."""
        self.unpaired_calls += len(self.progress.pending)
        self.progress = Progress()


@dataclass(frozen=True, slots=True)
class SessionReport:
    """The report on one session of a file."""

    id: UUID
    source_id: str
    title: str
    new: bool
    """Whether this import created the session."""
    counts: Counts

    @property
    def changed(self) -> bool:
        """Whether this import created the session or added to it. A new fork can have no own entries."""
        return self.new or self.counts.added > 0


@dataclass(slots=True)
class SkipReason:
    """Why records were skipped."""

    reason: str
    damaged: bool
    count: int = 0
    lines: list[int] = field(default_factory=list)
    """The first ones."""

    @property
    def listed(self) -> str:
        return ", ".join(f"{line:,}" for line in self.lines)


@dataclass(slots=True)
class FileReport:
    """The sessions of a file, the skipped records, and the error."""

    name: str
    format: str = ""
    sessions: list[SessionReport] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    """The first :data:`MAX_SKIPPED`."""
    skipped_count: int = 0
    damaged_count: int = 0
    lines: FileLines = field(default_factory=FileLines)
    by_reason: dict[str, SkipReason] = field(default_factory=dict)
    error: str = ""
    """Why reading stopped before the end of the file, or did not start."""
    retryable: bool = False
    """Whether the error depends on the session's state, so that importing the same file later may succeed."""
    unknown_format: bool = False

    def skip(self, skipped: Skipped) -> None:
        self.skipped_count += 1
        self.damaged_count += skipped.damaged
        if len(self.skipped) < MAX_SKIPPED:
            self.skipped.append(skipped)
        if (reason := self.by_reason.get(skipped.reason)) is None:
            if len(self.by_reason) >= MAX_REASONS:
                return
            reason = self.by_reason[skipped.reason] = SkipReason(skipped.reason, skipped.damaged)
        reason.count += 1
        if len(reason.lines) < MAX_LISTED:
            reason.lines.append(skipped.line)

    def restart(self) -> None:
        """Forgets the records of the file, which is read again."""
        self.skipped, self.skipped_count, self.damaged_count = [], 0, 0
        self.lines, self.by_reason = FileLines(self.format), {}

    @property
    def reasons(self) -> list[SkipReason]:
        """The reasons of skipped records, the most frequent first."""
        return sorted(self.by_reason.values(), key=lambda reason: -reason.count)

    @property
    def other_reasons(self) -> int:
        """The number of records that were skipped for further reasons."""
        return self.skipped_count - sum(reason.count for reason in self.by_reason.values())

    @property
    def changed(self) -> bool:
        """Whether the import created or changed any session."""
        return any(session.changed for session in self.sessions)

    def total(self, name: str) -> int:
        """The sum of one of the fields of :class:`Counts` over the file's sessions."""
        return sum(int(getattr(session.counts, name)) for session in self.sessions)
