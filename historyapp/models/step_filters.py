"""Finds steps by outcome, tool, file, text and time, without reading the whole list.

An index returns candidates in the order of their numbers. Each is compared with the filter and checked for
being live. Matches are read with the columns that lists show. For a text, a file or notes, the numbers of
candidates are in other tables.

A search reads at most :data:`MAX_READ` candidates. A search by time compares :data:`WINDOW` numbers. It
returns a cursor from which the next search continues.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Q

from historyapp.core.call_subjects import Kind
from historyapp.core.dates import UNDATED
from historyapp.core.episodes import STATUSES
from historyapp.core.named_files import may_act_on_files
from historyapp.core.projection import Totals
from historyapp.core.text import preview
from historyapp.models.entries import Entry, spans_between
from historyapp.models.episodes import INDEXED_STATUSES, SEVERAL_TOOLS, Episode, live_anchors
from historyapp.models.history import History
from historyapp.models.listed_steps import ListedSteps
from historyapp.models.origins import Flag
from historyapp.models.span_search import live_matches
from historyapp.models.step_candidates import (
    StepCandidate,
    any_of,
    few_spans,
    in_few_spans,
    rows_in_few_spans,
)
from historyapp.models.step_positions import have_few_rows
from historyapp.models.turns import steps_of_turn

LIKELY_FAILED = "likely_failed"
"""A value for ``status``: steps with a ``likely_failure``, with any status."""
STATUS_FILTERS = (*STATUSES, LIKELY_FAILED)
FAILED = "failed"
"""A value for ``status``, for jumps: steps that ended in an error or have a ``likely_failure``."""
_ERROR = Q(status="error")
HAS_LIKELY_FAILURE = Q(likely_failure__gt="")
"""The condition of the partial index."""
MAX_READ = 20_000
"""The maximum number of candidates of one search."""
_PAGES = (200, 2_000)
"""Candidates of the first batch, and of later ones."""
WINDOW = 100_000
"""The step numbers whose times one search compares by index."""
_LAST_ANCHOR = 2**31 - 1
_SPANS = -1
_LISTED = 0
"""The stream of cursors for searches among listed numbers, which compare only the number."""
_MIN_LIVE_SHARE = 0.1
"""If a smaller share of the first candidates is live, a step has many takes. The spans are read then."""
_COUNTED, _COUNTED_OF_MANY = 2_000, 500
"""The step numbers whose rows are counted, to choose between an index and the spans. Fewer if there are many
spans: each number may have three rows."""


@dataclass(frozen=True, slots=True)
class StepFilter:
    """A filter of steps. A field of None matches every step."""

    status: str | None = None
    """One of :data:`STATUS_FILTERS`, or :data:`FAILED`."""
    tool: str | None = None
    """The name of a called tool, as lists show it: 100 characters, one of the first 20 tools of the step."""
    since: datetime | None = None
    """Only steps that started at this time or later."""
    until: datetime | None = None
    """Only steps that started before this time. A step without a time is in no range."""
    noted: bool = False
    """Only steps with a bookmark or a note."""
    kind: Kind | None = None
    """The kind of a step's first tool call."""
    file: str | None = None
    """A file that a tool call reads or changes: its path, or the start or end of the path. Case
    is ignored.
    """
    edited: bool = False
    """Only with ``file``: only steps that edit, write or delete it."""
    names: Flag | None = None
    """Only steps with unseen or gone names that are in the index of names."""
    text: str | None = None
    """A text in the step or in the inputs before it, see
    :class:`historyapp.models.text_search.TextSearch`.
    """
    turn: int | None = None
    """Only steps of this turn, see :class:`historyapp.core.projection.Step`."""

    def __bool__(self) -> bool:
        return self != StepFilter()

    @property
    def is_listed(self) -> bool:
        """Whether the numbers of candidates are in another table."""
        return self.noted or any(value is not None for value in (self.file, self.names, self.text))

    @property
    def is_text_alone(self) -> bool:
        """Whether the text is the only condition, apart from the turn."""
        return self.text is not None and not replace(self, text=None, turn=None)

    def matches(self, step: "StepCandidate | Episode") -> bool:
        return (
            (self.status is None or self._has_status(step))
            and (self.tool is None or preview(self.tool, 100) in step.tool_names)
            and (self.since is None or step.started_at >= self.since)
            and (self.until is None or UNDATED < step.started_at < self.until)
            and (self.kind is None or step.kind == self.kind)
            and (self.turn is None or step.turn == self.turn)
            and (self.file is None or may_act_on_files(step.kind, step.tool_names))
        )

    def _has_status(self, step: "StepCandidate | Episode") -> bool:
        if self.status == FAILED:
            return step.status == "error" or bool(step.likely_failure)
        return bool(step.likely_failure) if self.status == LIKELY_FAILED else step.status == self.status


class SearchCursor(NamedTuple):
    """The last compared candidate of a search."""

    stream: int
    """Its session, counted from the oldest; after the last one the newest step; -1 if spans are searched."""
    number: int
    anchor: int


class MatchingSteps(NamedTuple):
    rows: list[Episode]
    more: SearchCursor | None
    """Where to continue, or None if all steps have been compared."""


class StepSearch:
    """Searches the steps of a history with numbers in ``within``, in the direction of ``within``.

    Args:
        within: ascending, or descending for newest first. Its step is 1 or -1.
        of_turn: the steps of the requested turn, if the caller has them.
    """

    def __init__(
        self, history: History, step_filter: StepFilter, within: range, *, of_turn: range | None = None
    ) -> None:
        self.history, self.step_filter, self.within = history, step_filter, within
        self.forwards = within.step > 0
        if step_filter.turn is not None:
            of_turn = steps_of_turn(history, step_filter.turn) if of_turn is None else of_turn
            # The part of ``within`` that is in the turn, in the same direction.
            lowest, highest = sorted((within[0], within[-1])) if within else (1, 0)
            both = range(max(lowest, of_turn.start), min(highest + 1, of_turn.stop))
            self.within = both if self.forwards else both[::-1]
        self._sessions, self._few_spans = history.lineage.owners, few_spans(history.lineage)
        self.listed = ListedSteps(history, step_filter, self.within)

    def find(self, limit: int, after: SearchCursor | None = None) -> MatchingSteps:
        """The next ``limit`` matching steps, and where to continue if there may be more."""
        rows: list[Episode] = []
        last = after
        matches = self._listed if self.step_filter.is_listed else self._matches
        for cursor, row in matches(after, limit):
            if row is None:  # the search has reached its limit
                return MatchingSteps(rows, cursor)
            if len(rows) == limit:
                return MatchingSteps(rows, last)
            rows.append(row)
            last = cursor
        return MatchingSteps(rows, None)

    def _matches(
        self, after: SearchCursor | None, limit: int
    ) -> Iterator[tuple[SearchCursor, Episode | None]]:
        """Matching steps with their cursors. A cursor without a step is where the search has to stop."""
        if after.stream < 0 if after else self._uses_spans():
            yield from self._live_matches(after)
            return
        read, has_found = 0, after is not None
        streams = list(range(len(self._sessions) + 1))[:: 1 if self.forwards else -1]
        if after and after.stream in streams:
            streams = streams[streams.index(after.stream) :]
        for stream in streams:
            started = after if after and after.stream == stream else None
            if stream == len(self._sessions):
                newest = None if started else self.history.newest_shown
                if newest and newest.number in self.within and self.step_filter.matches(newest):
                    has_found = True
                    yield SearchCursor(stream, newest.number, newest.anchor), newest
                continue
            numbers = self._numbers(stream, started)
            for page in self._pages(stream, numbers, started):
                session, lineage = self._sessions[stream], self.history.lineage
                matching = list(filter(self.step_filter.matches, page))
                live = live_anchors(lineage, session, [step.anchor for step in matching])
                is_first_page = read == 0 and not has_found and len(matching) == _PAGES[0]
                if is_first_page and len(live) < _MIN_LIVE_SHARE * len(matching):
                    yield from self._live_matches(after)
                    return
                passing = [step for step in matching if step.anchor in live]
                # A cut step has another row with a later anchor, which is shown if it matches.
                shown = {step.number: step for step in sorted(passing, key=attrgetter("anchor"))}
                passing = [step for step in passing if shown[step.number] is step]
                for row in self._shown(session, passing, limit + 1):
                    has_found = True
                    yield SearchCursor(stream, row.number, row.anchor), row
                read += len(page)
                if read >= MAX_READ:
                    yield SearchCursor(stream, page[-1].number, page[-1].anchor), None
            if (self.step_filter.since or self.step_filter.until) and len(numbers) > WINDOW:
                end = numbers[WINDOW - 1]
                yield SearchCursor(stream, end, _LAST_ANCHOR if self.forwards else 0), None

    def _shown(
        self, session: str, passing: "Sequence[StepCandidate | Episode]", at_once: int
    ) -> Iterator[Episode]:
        """The rows of a session's candidates, except those with a later row of the same step."""
        lineage = self.history.lineage
        for start in range(0, len(passing), at_once):
            batch = passing[start : start + at_once]
            rows = [step for step in batch if isinstance(step, Episode)]
            if len(rows) < len(batch):
                live = (
                    rows_in_few_spans(self._few_spans, session, batch)
                    if self._few_spans
                    else Episode.objects.with_numbers(lineage, [step.number for step in batch])
                )
                shown = {row.anchor: row for row in live if str(row.session_id) == session}
                rows = [shown[step.anchor] for step in batch if step.anchor in shown]
            yield from rows

    def _listed(
        self, after: SearchCursor | None, limit: int
    ) -> Iterator[tuple[SearchCursor, Episode | None]]:
        for number, row in self.listed.matches(after.number if after else None, limit):
            yield SearchCursor(_LISTED, number, row.anchor if row else 0), row

    @property
    def unindexed(self) -> set[UUID]:
        """Sessions whose texts were not indexed, so that the search read their entries."""
        return self.listed.unindexed

    def _uses_spans(self) -> bool:
        """Whether many rows with these numbers are not live, or many sessions have rows with them."""
        lineage = self.history.lineage
        if (
            not self.within
            or self.step_filter.status == "in_flight"
            or (lineage.older and len(self._sessions) > 1)
        ):
            return bool(lineage.older)
        lowest, counted = (
            min(self.within[0], self.within[-1]),
            _COUNTED if self._few_spans else _COUNTED_OF_MANY,
        )
        return not have_few_rows(lineage, lowest, lowest + min(len(self.within), counted) - 1)

    def _live_matches(self, after: SearchCursor | None) -> Iterator[tuple[SearchCursor, Episode | None]]:
        newest = None if after and self.forwards is False else self.history.newest_shown
        if newest and not (newest.number in self.within and self.step_filter.matches(newest)):
            newest = None
        if newest and not self.forwards:
            yield SearchCursor(_SPANS, newest.number, newest.anchor), newest
        lowest, highest = sorted((self.within[0], self.within[-1])) if self.within else (1, 0)
        highest = min(highest, self.history.steps - 1)
        if after and self.forwards:
            lowest = max(lowest, after.number + 1)
        elif after:
            highest = min(highest, after.number - 1)
        left = range(lowest, highest + 1)
        if left and self.step_filter.status != "in_flight":  # only the newest step can be in flight
            tools = {preview(self.step_filter.tool, 100)} if self.step_filter.tool is not None else set()
            matches = live_matches(
                self.history, self._condition(), tools, left if self.forwards else left[::-1]
            )
            for number, row in matches:
                if row is None:
                    yield SearchCursor(_SPANS, number, 0), None
                elif self.step_filter.matches(row):
                    yield SearchCursor(_SPANS, number, row.anchor), row
        if newest and self.forwards:
            yield SearchCursor(_SPANS, newest.number, newest.anchor), newest

    def _condition(self) -> Q:
        """The condition on status and time, for the database."""
        condition = Q()
        if self.step_filter.status == LIKELY_FAILED:
            condition &= HAS_LIKELY_FAILURE
        elif self.step_filter.status == FAILED:
            condition &= _ERROR | HAS_LIKELY_FAILURE
        elif self.step_filter.status is not None:
            condition &= Q(status=self.step_filter.status)
        if self.step_filter.since is not None:
            condition &= Q(started_at__gte=self.step_filter.since)
        if self.step_filter.until is not None:
            condition &= Q(started_at__gt=UNDATED, started_at__lt=self.step_filter.until)
        if self.step_filter.kind is not None:
            condition &= Q(kind=self.step_filter.kind)
        return condition

    def _numbers(self, stream: int, after: SearchCursor | None) -> range:
        """The numbers still to compare in a session, without the newest step."""
        if self.step_filter.status == "in_flight" or not self.within:  # only the newest step can be in flight
            return range(0)
        lowest, highest = sorted((self.within[0], self.within[-1]))
        first, last = max(1, lowest), min(self.history.steps - 1, highest)
        if stream < len(self._sessions) - 1:  # the session may have later steps than the lineage
            session = self._sessions[stream]
            spans = spans_between(self.history.lineage, newest_first=True)
            end = next((span.last for span in spans if span.session == session), None)
            if end is None:  # a rewind cut off all of its steps in the lineage
                return range(0)
            entry = Entry.objects.only("totals").get(session_id=UUID(session), position=end)
            last = min(last, Totals.load(entry.totals).steps)
        if after and self.forwards:
            first = max(first, after.number)
        elif after:
            last = min(last, after.number)
        numbers = range(first, last + 1)
        return numbers if self.forwards else numbers[::-1]

    def _pages(
        self, stream: int, numbers: range, after: SearchCursor | None
    ) -> "Iterator[list[StepCandidate | Episode]]":
        numbers = numbers[:WINDOW] if self.step_filter.since or self.step_filter.until else numbers
        if not numbers:
            return
        between = sorted((numbers[0], numbers[-1]))
        rows = Episode.objects.filter(session_id=UUID(self._sessions[stream]), number__range=between)
        rows = rows.filter(started_at__gte=self.step_filter.since) if self.step_filter.since else rows
        if self.step_filter.until:
            rows = rows.filter(started_at__gt=UNDATED, started_at__lt=self.step_filter.until)
        lineage = self.history.lineage
        if self._few_spans and len(self.within) <= _COUNTED:  # few rows have these numbers, see _uses_spans
            rows = in_few_spans(rows, self._few_spans, self._sessions[stream])
        size, following = _PAGES
        # In a single span each step has one row, which is not read again.
        in_full = len(lineage.newest) == 1 and not lineage.older
        while page := self._page(rows, stream, after, size, in_full=in_full):
            yield page
            if len(page) < size:
                return
            after, size = SearchCursor(stream, page[-1].number, page[-1].anchor), following
            in_full = False

    def _page(
        self, rows: Any, stream: int, after: SearchCursor | None, size: int, *, in_full: bool
    ) -> "list[StepCandidate | Episode]":
        """The next candidates, from the most selective index. ``in_full``: with all columns that
        lists show.
        """
        if after:
            beyond = Q(number__gt=after.number) if self.forwards else Q(number__lt=after.number)
            anchor = Q(anchor__gt=after.anchor) if self.forwards else Q(anchor__lt=after.anchor)
            within = Q(number__gte=after.number) if self.forwards else Q(number__lte=after.number)
            rows = rows.filter(within, beyond | anchor)
        order = ("number", "anchor") if self.forwards else ("-number", "-anchor")
        queries = [rows.filter(condition).order_by(*order)[:size] for condition in self._indexed_conditions()]
        query = queries[0] if len(queries) == 1 else any_of(queries, self._sessions[stream])
        steps: list[StepCandidate | Episode]
        if in_full:
            steps = list(query.defer("excerpt"))
        else:
            steps = [StepCandidate(*row) for row in query.values_list(*StepCandidate._fields)]
        steps.sort(key=lambda step: (step.number, step.anchor), reverse=not self.forwards)
        return steps[:size]

    def _indexed_conditions(self) -> list[Q]:
        """Conditions. A candidate must meet one of them. Each has an index in the order of the search."""
        if self.step_filter.status in INDEXED_STATUSES:
            return [Q(status=self.step_filter.status)]
        if self.step_filter.status == LIKELY_FAILED:
            return [HAS_LIKELY_FAILURE]
        if self.step_filter.status == FAILED:
            return [_ERROR, HAS_LIKELY_FAILURE]
        if self.step_filter.tool is not None:
            return [Q(tool=name) for name in sorted({preview(self.step_filter.tool, 100), SEVERAL_TOOLS})]
        return [Q()]
