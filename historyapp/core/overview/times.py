"""The time of a run: what the model, tools and people took, and what no part of it took."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from types import MappingProxyType
from typing import Literal

from historyapp.core.dates import milliseconds_of
from historyapp.core.entries import Entry
from historyapp.core.overview.person_waits import NO_WAITS, PersonWaits

Cut = Literal["fork", "rewind"]
Waited = Literal["tools", "unknown", "person"]
NO_CUTS: Mapping[int, Cut] = MappingProxyType({})
MAX_WAITS = 5
EXECUTION_TIME = "execution_time"
"""The metadata of results in which SWE-agent reports the seconds of a step's tools."""
_MAX_SECONDS = 1e7


@dataclass(slots=True)
class RunTimes:
    """Durations are in milliseconds, and moments in milliseconds since 1970."""

    steps: int = 0
    gaps: int = 0
    """Pairs of consecutive entries; ``timed_gaps``: those with different times."""
    timed_gaps: int = 0
    started_at: int | None = None
    ended_at: int | None = None
    newest_at: int | None = None
    """The latest time of an entry, also of those that no part of the time ends with."""
    cut: Cut | None = None
    """Whether the next entry is a fork's first own one, or the first one after a rewind."""
    is_resumed: bool = False
    """Whether no entry that ends a part of the time has followed the cut. The time before it was not spent on
    this history."""
    fork_time: int = 0
    """The time between shared entries and the first own ones of forks."""
    rewound_time: int = 0
    """The time between the newest entries that rewinds kept and the next ones."""
    waits_for: Waited = "person"
    """What takes the time after the newest entry: tools whose results follow, or calls without any result."""
    model_time: int = 0
    tool_time: int = 0
    reported_tool_time: int = 0
    """The time that tools took according to the source, also if its entries have no dates."""
    waiting_time: int = 0
    unanswered_time: int = 0
    """The time between a step whose tool calls have no result and a person's next input. How much of it the
    tools took is unknown."""
    waits: list[tuple[int, int]] = field(default_factory=list)
    """The longest waits for an input from a person, and the steps that followed them or asked for it."""
    approvals: list[tuple[int, int]] = field(default_factory=list)
    """The longest waits for the approval of tool calls, and their steps."""

    @property
    def is_dated(self) -> bool:
        """Whether the entries have times.

        Entries of a file without times have the time of their import, which is the same for all entries that
        were written together.
        """
        return self.timed_gaps > 0 and self.timed_gaps * 100 >= self.gaps

    def note_cut(self, position: int, cuts: Mapping[int, Cut]) -> None:
        """Notes whether the next entry, at this position, follows a fork or a rewind."""
        if cut := cuts.get(position):
            self.cut, self.is_resumed = cut, True

    def add_cut_time(self, entry: Entry, cuts: Mapping[int, Cut]) -> None:
        """Adds the time before an entry that follows a fork or a rewind to that of forks or rewinds."""
        self.note_cut(entry.position, cuts)
        moment = milliseconds_of(entry.created_at)
        newest_at = moment if self.newest_at is None else self.newest_at
        passed = max(0, moment - newest_at)
        self.fork_time += passed if self.cut == "fork" else 0
        self.rewound_time += passed if self.cut == "rewind" else 0
        self.newest_at, self.cut = max(moment, newest_at), None

    def add_reported_time(self, entries: Sequence[Entry]) -> None:
        """Adds the time that SWE-agent reports for the tools of a step, in each of the step's results."""
        reported = [entry.metadata.get(EXECUTION_TIME) for entry in entries]
        numbers = [value for value in reported if isinstance(value, (int, float))]
        seconds = [value for value in numbers if 0 <= value < _MAX_SECONDS]
        self.reported_tool_time += round(1_000 * max(seconds, default=0))

    def add_time(self, entry: Entry, spent_by: str, waits: PersonWaits = NO_WAITS) -> None:
        """Adds the time since the previous entry to its category, and waits during a step to those for a
        person."""
        moment, previous = milliseconds_of(entry.created_at), self.ended_at
        self.ended_at = moment if previous is None else max(previous, moment)
        if previous is None:
            self.started_at = moment
        if previous is None or self.is_resumed:
            self.is_resumed = False
            return
        passed = max(0, moment - previous)
        self.gaps += 1
        self.timed_gaps += passed > 0
        if spent_by == "model":
            self.model_time += passed
        elif spent_by == "tools":
            waited = min(waits.before(entry.position), passed)
            self.tool_time += passed - waited
            self.waiting_time += waited
            if waited and entry.position in waits.answers:
                self.waits = nlargest(MAX_WAITS, [*self.waits, (waited, self.steps)])
            elif waited:
                self.approvals = nlargest(MAX_WAITS, [*self.approvals, (waited, self.steps)])
        elif spent_by == "unknown":
            self.unanswered_time += passed
        elif spent_by == "person":
            self.waiting_time += passed
            if passed and self.steps:
                self.waits = nlargest(MAX_WAITS, [*self.waits, (passed, self.steps + 1)])
