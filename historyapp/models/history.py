"""A session's live history, now or as of an earlier position, for the API, the dashboard and policies.

The cost of a read depends on what it returns, not on the length of the session.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from heapq import merge
from itertools import groupby
from operator import attrgetter

from django.utils.functional import cached_property

from historyapp.core import entries as core
from historyapp.core import episodes as episodes_core
from historyapp.core.conversation import InputMessage, input_messages
from historyapp.core.errors import Invalid, NotFound
from historyapp.core.excerpts import Excerpt, FoundLine
from historyapp.core.lineage import Lineage
from historyapp.core.policies.base import Origin, StepOutline
from historyapp.core.projection import Tail
from historyapp.models.entries import Entry
from historyapp.models.episodes import Episode, StepSample
from historyapp.models.lineage_blocks import LineageBlocks
from historyapp.models.outlines import outlined, read_excerpts
from historyapp.models.request_origins import RequestOrigins
from historyapp.models.samples import sample_totals
from historyapp.models.sessions import Session
from historyapp.models.source_lines import lines_with
from historyapp.models.sql import OutlineRow, each_live_entry, live_entries, newest_first, newest_or_oldest
from historyapp.models.step_groups import in_groups
from historyapp.models.summaries import Summary, SummaryRow, existed_at, own_by_step
from historyapp.models.tails import tail_of
from historyapp.models.visibility import EVERYTHING, Visibility, without_hidden_previews

FIRST_READ, MAX_READ = 8, 256
"""Steps of the first read, and the maximum of one read."""


class History:
    """The live part of a session as of a position. None: now.

    Args:
        visible: what the reader may see. If people's texts are hidden, rows have no previews of them.

    Raises:
        Invalid: if ``as_of`` is beyond the head.
    """

    def __init__(self, session: Session, as_of: int | None = None, visible: Visibility = EVERYTHING) -> None:
        self.session = session
        self.visible = visible
        self.as_of = as_of
        self.lineage: Lineage = session.lineage(as_of)
        self._window: list[Episode] = []
        """A cache of the last rows that were read together: a page reads a list and then rows of it."""
        self._loaded, self._sampled = dict[int, Episode](), dict[int, StepSample]()
        self._samples_ahead = dict[int, StepSample]()

    @cached_property
    def blocks(self) -> LineageBlocks:
        """The blocks of texts of the session and its ancestors, with those that were read."""
        return LineageBlocks(self.session, self.session.head if self.as_of is None else self.as_of)

    @cached_property
    def tail(self) -> Tail:
        """The running totals and the newest step as of the position."""
        if self.as_of is None or self.as_of == self.session.head:
            return self.session.live_tail
        return tail_of(self.lineage)

    @property
    def last_entry_at(self) -> datetime:
        """The time of the newest entry, or of the session's creation if it has no entry.

        Rewinds are ignored: a rewind today of an old run does not make the run newer.
        """
        session, head = self.session, self.as_of
        if head is None or head == session.head:
            return session.last_entry_at
        own = session.entries.filter(position__lte=head).exclude(kind="rewind").order_by("-position")
        newest = own.values_list("created_at", flat=True).first() if head > session.fork_position else None
        shared = min(head, session.fork_position)
        return newest or Entry.objects.newest_at(session.shared_lineage.cut(shared)) or session.created_at

    @property
    def newest_live_at(self) -> datetime:
        """As :attr:`last_entry_at`, but without the entries that a rewind took away."""
        session, is_now = self.session, self.as_of is None or self.as_of == self.session.head
        was_rewound = session.tail_start != session.fork_position + 1
        if is_now and not (was_rewound and session.head < session.tail_start):
            return session.last_entry_at
        return Entry.objects.newest_at(self.lineage) or session.created_at

    @property
    def steps(self) -> int:
        """The number of live steps, which is also the number of the newest step."""
        return self.tail.totals.steps

    def is_open(self, number: int) -> bool:
        """Whether the step lacks a result. An ended session may get it by an import of its file."""
        step = self.tail.step
        return step is not None and step.number == number and step.status == "in_flight"

    def rows(self, first: int, last: int) -> list[Episode]:
        """The rows of steps ``first`` to ``last`` (from 1, both included), oldest first, with the shown
        status.

        In an ended session no step is in flight: a newest step without a result is shown as abandoned.
        """
        rows = self._stored_rows(first, last)
        if rows and rows[-1].number == self.steps and (newest := self.newest_shown):
            rows[-1] = newest
        return rows if self.visible.inputs else [without_hidden_previews(row) for row in rows]

    def _stored_rows(self, first: int, last: int) -> list[Episode]:
        first, last = max(1, first), min(last, self.steps)
        if first > last:
            return []
        if first == self.steps and self.newest:
            return [self.newest]
        loaded = self._window
        if last - first < len(self._loaded) and all(map(self._loaded.__contains__, range(first, last + 1))):
            loaded = [self._loaded[number] for number in range(first, last + 1)]
        elif not loaded or first < loaded[0].number or last > loaded[-1].number:
            loaded = Episode.objects.numbered(self.lineage, first, last)
            self._window = loaded if first < last else self._window
        rows = [row for row in loaded if first <= row.number <= last]
        if self.newest and last == self.steps:
            return [*(row for row in rows if row.number < last), self.newest]
        return rows

    def load(self, numbers: Iterable[int]) -> dict[int, Episode]:
        """Reads and caches the rows of some steps, so that reading one of them takes no query."""
        missing = [number for number in set(numbers) - self._loaded.keys() if 1 <= number <= self.steps]
        read_rows = Episode.objects.few_with_numbers(self.lineage, missing) if missing else []
        rows = [self.row(number) for number in missing] if read_rows is None else read_rows
        self._loaded |= {row.number: row for row in rows}
        if self.newest and self.steps in self._loaded:
            self._loaded[self.steps] = self.newest
        for row in () if self.visible.inputs else self._loaded.values():
            without_hidden_previews(row)
        return self._loaded

    def sample(self, numbers: Sequence[int], *, with_totals: bool = False) -> list[StepSample]:
        """Steps with these ascending numbers, for drawing a timeline. The numbers are at equal distances,
        except for the first.

        In a long session with many takes, other steps at about the same distances may be returned.

        Args:
            with_totals: also read the totals at the steps' outputs, if the positions of these are known.
        """
        rows = [self._samples_ahead[number] for number in numbers if number in self._samples_ahead] or None
        if rows is None or len(rows) < len(numbers):
            rows = Episode.objects.sampled_at(self.lineage, numbers, with_totals=with_totals)
        if rows is None:
            totals = sample_totals(self.lineage, self.steps, numbers[1] - numbers[0])
            rows = [StepSample.at(self.session.pk, *total) for total in totals]
        if numbers and numbers[-1] == self.steps and (shown := self.newest_shown):
            columns = {name: getattr(shown, name) for name in StepSample._fields[:-1]}
            newest = StepSample(**columns, entry_totals=self.tail.step_totals.dump())
            rows = [*(row for row in rows if row.number < self.steps), newest]
        if not self.visible.inputs:
            rows = [row._replace(input_preview="") for row in rows]
        self._sampled |= {row.number: row for row in rows if row.anchor}
        return rows

    def sample_ahead(self, numbers: Sequence[int], *, with_totals: bool = False) -> None:
        """Reads and caches steps with these numbers, so that sampling them takes no further query."""
        rows = Episode.objects.sampled_sparsely(self.lineage, numbers, with_totals=with_totals)
        self._samples_ahead = {row.number: row for row in rows or ()}

    @property
    def known_rows(self) -> dict[int, Episode | StepSample]:
        """The cached rows, in order, for searches that start between two of them."""
        rows: dict[int, Episode | StepSample] = {row.number: row for row in self._window}
        rows |= {**self._loaded, **self._sampled}
        if self.newest:
            rows[self.steps] = self.newest
        return dict(sorted(rows.items()))

    @property
    def newest(self) -> Episode | None:
        """The newest step as of the position. Its stored row may be newer."""
        step = self.tail.step
        return Episode.of(self.session.id, step) if step else None

    @property
    def newest_shown(self) -> Episode | None:
        """The newest step with the shown status, see :meth:`rows`."""
        newest = self.newest
        is_now = self.as_of is None or self.as_of == self.session.head
        has_ended = is_now and self.session.status != Session.Status.LIVE
        if newest and has_ended and newest.status == "in_flight":
            newest.status = "abandoned"
        return newest

    def row(self, number: int) -> Episode:
        """The row of one step.

        Raises:
            NotFound: if there is no such live step.
        """
        for row in self.rows(number, number):
            return row
        raise self._no_such_step(number)

    def resolve(self, number: int) -> int:
        """Converts a step number that may be negative: -1 is the newest.

        Raises:
            NotFound: if the number is 0 or beyond the history.
        """
        resolved = number if number > 0 else self.steps + 1 + number
        if number == 0 or not 1 <= resolved <= self.steps:
            raise self._no_such_step(number)
        return resolved

    def _no_such_step(self, number: int) -> NotFound:
        text = f"There is no step {number}: the history has no steps yet."
        if self.steps:
            text = f"There is no step {number}. Use 1 to {self.steps}, or -1 to -{self.steps} from the end."
        return NotFound(text, steps=self.steps)

    def slice(self, start: int | None = None, stop: int | None = None) -> range:
        """Converts a range of step numbers, both included. Negative numbers count from the end.

        Raises:
            Invalid: if a bound is beyond the history or the start is after the end.
        """
        try:
            first = self.resolve(start) if start is not None else min(1, self.steps)
            last = self.resolve(stop) if stop is not None else self.steps
        except NotFound as error:
            raise Invalid(error.detail, **error.fields) from error
        if first > last:
            raise Invalid(f"`from` is step {first}, which comes after `to`, step {last}.", steps=self.steps)
        return range(first, last + 1) if self.steps else range(0)

    def episodes(self, first: int, last: int) -> list[episodes_core.Episode]:
        """Steps with their bodies and summaries, oldest first. Takes three queries."""
        return [episode for _, episode in self._with_bodies(self._stored_rows(first, last))]

    def with_bodies(self, rows: Sequence[Episode]) -> list[tuple[Episode, episodes_core.Episode]]:
        """The given rows, in their order, with their steps' bodies. Neighbouring steps are read together."""
        pairs: dict[int, tuple[Episode, episodes_core.Episode]] = {}
        ordered = sorted(rows, key=lambda row: row.number)
        for _, group in groupby(enumerate(ordered), key=lambda pair: pair[1].number - pair[0]):
            pairs |= {row.number: (row, step) for row, step in self._with_bodies([row for _, row in group])}
        return [pairs[row.number] for row in rows]

    def _with_bodies(self, rows: Sequence[Episode]) -> list[tuple[Episode, episodes_core.Episode]]:
        if not rows:
            return []
        first, end = rows[0].first_position, max(row.last_position for row in rows)
        entries = live_entries(self.lineage, core.STEP_KINDS, after=first - 1, before=end + 1, metadata=())
        grouped = episodes_core.group_episodes(entries, rows[0].number)
        own = own_by_step(self.summaries(first, end))
        return [
            (row, replace(_as_row(episode, row), summary=own[row.number].text if row.number in own else None))
            for episode, row in zip(grouped, rows, strict=False)
        ]

    def episodes_newest_first(
        self, last: int | None = None, first: int = 1
    ) -> Iterator[episodes_core.Episode]:
        """Steps from ``last`` (default: the newest) down to ``first``, read lazily.

        Each batch is twice as long as the one before it, which keeps the number of queries small. Bodies of
        large steps are loaded a few at a time.
        """
        last = self.steps if last is None else min(last, self.steps)
        size = FIRST_READ
        while last >= first:
            rows = self._stored_rows(max(first, last - size + 1), last)
            for group in in_groups(rows[::-1]):
                yield from (episode for _, episode in reversed(self._with_bodies(group[::-1])))
            last -= size
            size = min(size * 2, MAX_READ)

    def outline(self, first: int, last: int) -> list[StepOutline]:
        """Steps ``first`` to ``last`` by their excerpts, oldest first."""
        rows = Episode.objects.outlines(self.lineage, first, last)
        if self.newest and last >= self.steps:
            stored = next((row for row in rows if row.number == self.steps), None)
            newest = OutlineRow(*(getattr(self.newest, name) for name in OutlineRow._fields))
            if stored and stored.last_position == newest.last_position:
                newest = newest._replace(excerpt=stored.excerpt)  # the stored row is not newer
            rows = [*(row for row in rows if row.number < self.steps), newest]
        if not rows:
            return []
        summaries = self.summaries(rows[0].first_position, rows[-1].last_position)
        return outlined(rows, self.excerpts(rows), summaries)

    def excerpts(self, rows: Sequence[OutlineRow]) -> list[Excerpt]:
        """The excerpts of the steps of these rows, oldest first."""
        return read_excerpts(rows, partial(each_live_entry, self.lineage, ("model_output", "tool_results")))

    def bodies(self, steps: Sequence[StepOutline]) -> list[episodes_core.Episode]:
        """The bodies of consecutive outlined steps, without summaries. One query."""
        if not steps:
            return []
        first, last = steps[0].first_position, steps[-1].last_position
        entries = live_entries(self.lineage, core.STEP_KINDS, after=first - 1, before=last + 1, metadata=())
        grouped = episodes_core.group_episodes(entries, steps[0].number)
        return [_as_row(episode, step) for episode, step in zip(grouped, steps, strict=False)]

    def lines_with(self, names: Sequence[tuple[StepOutline, str]]) -> list[FoundLine | None]:
        """For each step and name, the first line of the step's results with the name. One query, if any."""
        return lines_with(self.session.pk, self.lineage, names)

    @property
    def first_input(self) -> InputMessage | None:
        """The oldest live input, or None."""
        entry = newest_or_oldest(self.lineage, "model_input", self.session, newest=False)
        return next(input_messages(entry)) if entry else None

    def inputs_newest_first(self, before: int | None = None) -> Iterator[InputMessage]:
        """Live inputs before a position, and results recorded before the first step, newest first.

        They are read lazily.
        """
        lineage = self.lineage if before is None else self.lineage.cut(before - 1)
        inputs = [newest_first(lineage, kind, self.session) for kind in core.INPUT_KINDS]
        messages = merge(*inputs, key=attrgetter("position"), reverse=True)
        if self.tail.totals.orphans:
            for row in self.rows(1, 1):
                lineage = lineage.cut(min(lineage.last, row.first_position - 1))
            orphans = newest_first(lineage, "tool_results")
            messages = merge(messages, orphans, key=attrgetter("position"), reverse=True)
        for entry in messages:
            yield from input_messages(entry, in_step=False)

    def summaries(self, first_position: int = 1, last_position: int | None = None) -> list[SummaryRow]:
        """The live summaries that end within the positions, oldest first."""
        last = self.lineage.last if last_position is None else last_position
        rows = Summary.objects.live_rows(self.session, self.lineage, (first_position, last), self._exists)
        return [summary for summary in rows if self.has_summary(summary)]

    def summaries_newest_first(self, before: int) -> Iterator[SummaryRow]:
        """The live summaries that end before a position, in descending order of their ends."""
        rows = Summary.objects.rows_newest_first(self.lineage, before, self.session, self._exists)
        return (summary for summary in rows if self.has_summary(summary))

    def origins(self, outputs: Sequence[int], format: str, model: str) -> Mapping[int, Origin]:
        """The requests in which live outputs were made, by position."""
        step = self.tail.step
        compacted = step is not None and step.compactions > 0
        origins = RequestOrigins(self.session, self.lineage, format, model, is_compacted=compacted)
        return origins.of(outputs)

    def has_summary(self, summary: SummaryRow) -> bool:
        """Whether a summary that is valid in the lineage existed at the position."""
        return self._exists(summary)

    def _exists(self, summary: SummaryRow) -> bool:
        return existed_at(summary, self.session, self.as_of)

    def entries(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        kinds: Iterable[str] = (),
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Iterator[Entry]:
        """Live entries between two positions (both excluded), at most ``limit``."""
        return Entry.objects.live(
            self.lineage, after=after, before=before, kinds=kinds, newest_first=newest_first, limit=limit
        )

    @property
    def instruction(self) -> str | None:
        """The current system instruction, or None."""
        entry = newest_or_oldest(self.lineage, "system_instruction", self.session, newest=True)
        return entry.body.text if entry and isinstance(entry.body, core.SystemInstruction) else None

    @property
    def notebook(self) -> str | None:
        """The current memory notebook, or None."""
        entry = newest_or_oldest(self.lineage, "memory_notebook", self.session, newest=True)
        return entry.body.content if entry and isinstance(entry.body, core.MemoryNotebook) else None


def _as_row(episode: episodes_core.Episode, row: Episode | StepOutline) -> episodes_core.Episode:
    """The episode with the row's status: only the row shows that a later output abandoned the step."""
    return episodes_core.abandon(episode) if row.status == "abandoned" else episode
