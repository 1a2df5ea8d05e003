"""Steps by status, tool and time: what filtering the whole list would give, without reading it.

An index gives candidates in the order of their numbers; each index has the time too. Each candidate is
compared with the filter, and with what is live; those that pass are looked up as the list has them.

One search reads at most :data:`MOST_READ` candidates, and by time it compares :data:`WINDOW` numbers, however
long the session is. It says where the next one goes on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Q

from historyapp.core.text import preview
from historyapp.models.entries import Entry
from historyapp.models.episodes import INDEXED_STATUSES, SEVERAL, Episode
from historyapp.models.history import History

MOST_READ = 20_000
"""Candidates that one search reads."""
_PAGES = (200, 2_000)
"""Candidates that are read at once: at first, and from then on."""
WINDOW = 100_000
"""Step numbers whose times one search compares, within an index."""
_LAST_ANCHOR = 2**31 - 1


@dataclass(frozen=True, slots=True)
class StepFilter:
    """What steps are looked for; None means that a field is not compared."""

    status: str | None = None
    tool: str | None = None
    """The name of a tool that the step called, as the list has it: in 100 characters, of the first 20."""
    since: datetime | None = None
    """Steps that started then or later."""
    until: datetime | None = None
    """Steps that started before."""

    def __bool__(self) -> bool:
        return any(value is not None for value in (self.status, self.tool, self.since, self.until))

    @property
    def by_time(self) -> bool:
        return self.since is not None or self.until is not None

    def matches(self, status: str, started_at: datetime, tool_names: Sequence[str]) -> bool:
        return (
            (self.status is None or status == self.status)
            and (self.tool is None or preview(self.tool, 100) in tool_names)
            and (self.since is None or started_at >= self.since)
            and (self.until is None or started_at < self.until)
        )


class SearchCursor(NamedTuple):
    """How far a search has come: the last candidate that it dealt with."""

    stream: int
    """Which of the lineage's sessions, counted from the oldest; one more: the newest step."""
    number: int
    anchor: int


class FoundSteps(NamedTuple):
    rows: list[Episode]
    more: SearchCursor | None
    """Where to go on; None when everything has been compared."""


class _Candidate(NamedTuple):
    number: int
    anchor: int
    status: str
    started_at: datetime
    tool_names: list[str]


class StepSearch:
    """Looks through the steps of a history whose numbers lie in ``within``, in its direction.

    Args:
        within: ascending, or descending for the newest first; its step is 1 or -1.
    """

    def __init__(self, history: History, wanted: StepFilter, within: range) -> None:
        self.history, self.wanted, self.within = history, wanted, within
        self.forwards = within.step > 0
        self._sessions = history.lineage.sessions
        self._read = 0

    def find(self, limit: int, after: SearchCursor | None = None) -> FoundSteps:
        """The next matching steps, at most ``limit``, and where to go on if there may be more."""
        self._read = 0
        rows: list[Episode] = []
        last = after
        for mark, row in self._found(after, limit):
            if row is None:  # read as much as one search may
                return FoundSteps(rows, mark)
            if len(rows) == limit:
                return FoundSteps(rows, last)
            rows.append(row)
            last = mark
        return FoundSteps(rows, None)

    def _found(self, after: SearchCursor | None, limit: int) -> Iterator[tuple[SearchCursor, Episode | None]]:
        for stream in self._streams(after):
            started = after if after and after.stream == stream else None
            if stream == len(self._sessions):
                yield from self._newest(stream, started)
                continue
            numbers = self._numbers(stream, started)
            for page in self._pages(stream, numbers, started):
                passing = [one for one in page if self._passes(stream, one)]
                for start in range(0, len(passing), limit + 1):
                    some = passing[start : start + limit + 1]
                    standing = self._standing(stream, some)
                    for one in some:
                        if one.anchor in standing:
                            yield SearchCursor(stream, one.number, one.anchor), standing[one.anchor]
                self._read += len(page)
                if self._read >= MOST_READ:
                    yield SearchCursor(stream, page[-1].number, page[-1].anchor), None
            if self.wanted.by_time and len(numbers) > WINDOW:
                end = numbers[WINDOW - 1]
                yield SearchCursor(stream, end, _LAST_ANCHOR if self.forwards else 0), None

    def _streams(self, after: SearchCursor | None) -> list[int]:
        """The lineage's sessions in the order of their steps, and the newest step apart from them."""
        streams = list(range(len(self._sessions) + 1))
        if not self.forwards:
            streams.reverse()
        return streams[streams.index(after.stream) :] if after and after.stream in streams else streams

    def _newest(self, stream: int, after: SearchCursor | None) -> Iterator[tuple[SearchCursor, Episode]]:
        newest = self.history.newest_shown
        if newest is None or after or newest.number not in self.within:
            return
        if self.wanted.matches(newest.status, newest.started_at, newest.tool_names):
            yield SearchCursor(stream, newest.number, newest.anchor), newest

    def _passes(self, stream: int, one: _Candidate) -> bool:
        session, lineage = self._sessions[stream], self.history.lineage
        if not self.wanted.matches(one.status, one.started_at, one.tool_names):
            return False
        return lineage.contains(session, one.anchor) or lineage.starts_at(session, one.anchor + 1)

    def _standing(self, stream: int, some: list[_Candidate]) -> dict[int, Episode]:
        """Of the candidates those that stand for their numbers, by their anchors."""
        rows = Episode.objects.standing(self.history.lineage, [one.number for one in some])
        return {row.anchor: row for row in rows if str(row.session_id) == self._sessions[stream]}

    def _numbers(self, stream: int, after: SearchCursor | None) -> range:
        """The numbers that are left to look at in a session. The newest step is looked at apart."""
        last = min(self.history.steps - 1, self._last_number(stream), max(self.within, default=0))
        first = max(1, min(self.within, default=1))
        if self.wanted.status == "in_flight":  # only the newest step can be
            return range(0)
        if after and self.forwards:
            first = max(first, after.number)
        elif after:
            last = min(last, after.number)
        numbers = range(first, last + 1)
        return numbers if self.forwards else numbers[::-1]

    def _pages(self, stream: int, numbers: range, after: SearchCursor | None) -> Iterator[list[_Candidate]]:
        numbers = numbers[:WINDOW] if self.wanted.by_time else numbers
        if not numbers:
            return
        between = min(numbers), max(numbers)
        rows = Episode.objects.filter(session_id=UUID(self._sessions[stream]), number__range=between)
        rows = rows.filter(started_at__gte=self.wanted.since) if self.wanted.since else rows
        rows = rows.filter(started_at__lt=self.wanted.until) if self.wanted.until else rows
        size, following = _PAGES
        while page := self._page(rows, after, size):
            yield page
            if len(page) < size:
                return
            after, size = SearchCursor(stream, page[-1].number, page[-1].anchor), following

    def _page(self, rows: Any, after: SearchCursor | None, size: int) -> list[_Candidate]:
        """The next candidates by the index that knows most about the filter."""
        if after:
            beyond = Q(number__gt=after.number) if self.forwards else Q(number__lt=after.number)
            anchor = Q(anchor__gt=after.anchor) if self.forwards else Q(anchor__lt=after.anchor)
            within = Q(number__gte=after.number) if self.forwards else Q(number__lte=after.number)
            rows = rows.filter(within, beyond | anchor)
        if self.wanted.status in INDEXED_STATUSES:
            return self._fetched(rows.filter(status=self.wanted.status), size)
        if self.wanted.tool is None:
            return self._fetched(rows, size)
        # Each way has its own order in the index; in one query the database would sort them all.
        tool = preview(self.wanted.tool, 100)
        both = [one for name in {tool, SEVERAL} for one in self._fetched(rows.filter(tool=name), size)]
        return self._sorted(both)[:size]

    def _fetched(self, rows: Any, size: int) -> list[_Candidate]:
        order = ("number", "anchor") if self.forwards else ("-number", "-anchor")
        found = rows.order_by(*order).values_list(*_Candidate._fields)[:size]
        return [_Candidate(*row) for row in found]

    def _sorted(self, rows: list[_Candidate]) -> list[_Candidate]:
        return sorted(rows, key=lambda one: (one.number, one.anchor), reverse=not self.forwards)

    def _last_number(self, stream: int) -> int:
        """The last step that the lineage has from a session: what that recorded later is none of it."""
        if stream == len(self._sessions) - 1:
            return self.history.steps
        session = self._sessions[stream]
        last = max(span.last for span in self.history.lineage.spans if span.session == session)
        entry = Entry.objects.only("totals").get(session_id=UUID(session), position=last)
        return entry.running_totals.steps
