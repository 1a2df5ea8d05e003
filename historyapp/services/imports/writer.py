"""Writes one session of one transcript into the log.

Every operation gets a digest, chained to the previous one. Operations that an earlier import stored are only
compared, so importing again adds nothing, and a file that has grown adds only new entries. Each batch is
stored in one transaction together with the progress of the import. A killed import loses at most the current
batch.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import groupby, islice
from typing import Any

from historyapp.core.dates import UNDATED, known_time
from historyapp.core.entries import EntryDraft, Rewind, load_body
from historyapp.core.errors import Conflict
from historyapp.core.importers.base import AddNote, AddSummary, Append, RewindTo, SessionStart
from historyapp.core.json import load_dumped
from historyapp.core.prepared import FailureSearch, Prepared, prepare, with_facts, with_tokens
from historyapp.core.tokens import count_tokens
from historyapp.models import Entry, ImportSource, Session
from historyapp.models.fields import pack_all
from historyapp.models.notes import MAX_NOTES
from historyapp.services.append import append_locked, lock_session, read_session
from historyapp.services.disk_space import check_disk_space
from historyapp.services.imports.digests import DIGEST_PREFIX, digest, earlier_digest
from historyapp.services.imports.limits import MAX_PROVISIONAL
from historyapp.services.imports.notes import write_notes
from historyapp.services.imports.parser import ParsedOperation
from historyapp.services.imports.reports import Counts
from historyapp.services.imports.shifts import add_shift, stored_position
from historyapp.services.imports.source_operations import SourceOperation
from historyapp.services.imports.summaries import StoredSummaries, in_parts, with_positions, write_summaries
from historyapp.services.imports.tails import Tails
from historyapp.services.list_columns import set_duration
from historyapp.services.rewinds import rewind_locked
from historyapp.services.transactions import writing

MIN_ENTRIES, BATCH_ENTRIES = 40, 1000
"""A batch is written when it has this many entries: fewer after one that took more than ``BATCH_SECONDS``,
because other writers wait until its transaction ends."""
BATCH_SECONDS = 0.3
BATCH_BYTES, OPERATION_BYTES = 8 * 1024 * 1024, 1500
"""A batch is written when it takes about this much memory: each operation, with the JSON of its entry."""
SHORT_STEP_ENTRIES, SHORT_STEP_BYTES = 32, 1 << 16
"""The maximum size of a step, with the entries after it, that a rewind reads within its transaction."""


class DifferentBeginning(Exception):
    """A session with this id was already imported from a file that begins differently."""


class SessionWriter:
    """Writes one session of one transcript.

    Args:
        source: the progress of the session's import. The session exists.
        tails: of the file.
    """

    def __init__(self, start: SessionStart, source: ImportSource, tails: Tails) -> None:
        self.start, self.source, self.counts = start, source, Counts()
        self._tails = tails
        self._settled = source.settled
        self._provisional: list[str] = source.provisional_digests
        """Digests of the operations at the end of the file in the last import, which may have changed."""
        digests = (source.settled_digest, *self._provisional)
        self._by_earlier_version = any(old and not old.startswith(DIGEST_PREFIX) for old in digests)
        self._last_equal: SourceOperation | None = None
        """The operation before the first one that differs from the last import, if one does."""
        self._waiting: list[SourceOperation] = []
        self.waiting_bytes, self._waiting_cost, self._max_cost = 0, 0, BATCH_ENTRIES
        self._summaries, self._summaries_size = list[AddSummary](), 0
        self._stored_summaries = StoredSummaries()
        self._notes: list[AddNote] = []
        self._time = start.created_at
        self._head_before = source.session_head() if source.settled else 0
        """The lowest head at which a summary of this import can have been created."""
        position = start.forked_from[1] if start.forked_from else 0
        self._newest = SourceOperation(RewindTo(start.session, 0), 0, position, "")
        self._newest_settled = self._newest
        """The newest operation that does not change when the file grows."""

    @property
    def is_comparing(self) -> bool:
        """Whether an earlier import has stored the next operation."""
        return self._newest.number < self._settled

    def add(self, parsed: ParsedOperation) -> None:
        """Adds the session's next operation, in the file's order.

        Raises:
            DifferentBeginning: when the file's beginning differs from the imported session.
            Conflict: when another import changed the session meanwhile.
        """
        operation = parsed.operation
        if isinstance(operation, AddSummary):
            self._summaries.append(operation)  # not compared: an old range can get a new summary
            self._summaries_size += len(operation.text) + sum(map(len, operation.key_points))
            is_full = len(self._summaries) >= BATCH_ENTRIES or self._summaries_size >= BATCH_BYTES
            if is_full and self._newest.number >= self._settled:
                self._write_summaries()
            return
        if isinstance(operation, AddNote):
            if len(self._notes) < MAX_NOTES:
                self._notes.append(operation)
            return
        assert isinstance(operation, (Append, RewindTo))
        self._begin_batch(operation)
        self.counts.add(operation)
        previous, new = self._newest, self._source_operation(parsed, operation)
        provisional = isinstance(operation, Append) and operation.provisional
        self._newest = new.without_values()
        is_settled = not provisional and self._newest_settled is previous
        if is_settled or new.number - self._newest_settled.number > MAX_PROVISIONAL:
            self._newest_settled = self._newest
        digests = new.digest, new.earlier_digest
        if new.number == self._settled and self.source.settled_digest not in digests:
            raise DifferentBeginning(self.start.session)
        if new.number <= self._settled:
            return
        index = new.number - self._settled - 1
        if index < len(self._provisional):
            if self._provisional[index] in digests:
                return  # the last import stored it
            self._last_equal, self._provisional = previous, []
        self._add_waiting(new)

    def _begin_batch(self, operation: Append | RewindTo) -> None:
        """Writes the waiting operations if a rewind goes to one of them, so that its tail can be read before
        its transaction. Short steps are read within it: one transaction for each rewind takes twice as long.
        """
        if not self._waiting or not isinstance(operation, RewindTo):
            return
        index = _target(operation, self._newest.position + 1) - self._waiting[0].position
        if index < 0 or self._ends_short_step(index):
            return
        if any(isinstance(waiting.operation, Append) for waiting in self._waiting):
            self.flush()  # otherwise the tail is that of another rewind in the batch

    def _ends_short_step(self, index: int) -> bool:
        """Whether a waiting operation belongs to a short step, or follows it, and the whole step waits."""
        size = 0
        for at in range(index, max(-1, index - SHORT_STEP_ENTRIES), -1):
            operation, prepared = self._waiting[at].operation, self._waiting[at].prepared
            size += prepared.size if prepared else 0
            if not isinstance(operation, Append) or size > SHORT_STEP_BYTES:
                return False
            if operation.draft.body.kind == "model_output":
                return True
        return False

    def _add_waiting(self, new: SourceOperation) -> None:
        self._waiting.append(new)
        self.waiting_bytes += OPERATION_BYTES + new.memory
        self._waiting_cost += new.cost
        if self._waiting_cost >= self._max_cost or self.waiting_bytes >= BATCH_BYTES:
            self.flush()

    def _source_operation(self, parsed: ParsedOperation, operation: Append | RewindTo) -> SourceOperation:
        """The operation with its number, digest and entry.

        If it has no time, it gets the time of the previous operation. :meth:`_with_times` gives a time to the
        operations before the first one with a time.
        """
        draft = operation.draft
        if draft is not None and draft.created_at is not None:
            self._time = draft.created_at
        elif self._time is not None and isinstance(operation, Append):
            operation = operation._replace(draft=operation.draft._replace(created_at=self._time))
        elif self._time is not None and isinstance(operation, RewindTo):
            draft = draft or EntryDraft(Rewind(to_position=operation.to_position, spans=()))
            operation = replace(operation, draft=draft._replace(created_at=self._time))
        prepared = parsed.prepared
        if isinstance(operation, Append):
            # Tokens are counted later, if the entry is new.
            prepared = (prepared or prepare(operation.draft, tokens=0))._replace(draft=operation.draft)
        previous = self._newest
        return SourceOperation(
            operation,
            previous.number + 1,
            previous.position + 1,
            digest(previous.digest, operation, prepared),
            earlier_digest(previous.earlier_digest, operation, prepared) if self._by_earlier_version else "",
            prepared,
            tokens_counted=parsed.prepared is not None,
        )

    def finish(self) -> None:
        """Writes the waiting operations.

        Raises:
            DifferentBeginning: when the file is shorter than the imported file and not its beginning.
        """
        self.counts.end_step()
        if self.is_comparing:
            # The longer file need not contain the provisional operations at the end of the shorter one. Only
            # the last entry is compared.
            last = self._newest_settled if self._newest_settled.number else self._newest
            if last.dumped:
                position = stored_position(self.source, last.position)
                entry = Entry.objects.filter(session_id=self.source.session_id, position=position).first()
                if entry is None or entry.core().body != load_body(last.kind, load_dumped(last.dumped)):
                    raise DifferentBeginning(self.start.session)
            return
        if self._waiting or self._newest_settled.number > self.source.settled:
            self.flush()
        self._write_summaries()
        if self._notes:
            notes = [
                replace(note, position=stored_position(self.source, note.position)) for note in self._notes
            ]
            with writing():
                write_notes(lock_session(self.source.project, self.source.session_id), notes)

    def _write_summaries(self) -> None:
        """Writes the waiting summaries. The entries that they cover are written first."""
        if not self._summaries:
            return
        self.flush_waiting()
        check_disk_space()
        waiting, self._summaries, self._summaries_size = self._summaries, [], 0
        for part in in_parts(waiting):
            batch = [self._with_session_positions(row) for row in part]
            tokens = {summary.text: count_tokens(summary.text) for summary in batch}
            self._stored_summaries.read(read_session(self.source.project, self.source.session_id), batch)
            with writing():
                locked = lock_session(self.source.project, self.source.session_id)
                write_summaries(locked, batch, tokens, self._stored_summaries)

    def _with_session_positions(self, summary: AddSummary) -> AddSummary:
        """The summary with positions in the stored session, not in the file's session."""
        first, last = (
            stored_position(self.source, end) for end in (summary.first_position, summary.last_position)
        )
        if (made_at := summary.made_at) is not None:
            made_at = max(stored_position(self.source, made_at), self._head_before)
        return with_positions(summary, first, last, made_at)

    def flush(self) -> None:
        """Writes the waiting operations and the progress of the import, in one transaction."""
        check_disk_space()
        self._waiting = self._with_times()
        failures = FailureSearch()
        entries = [
            failures.searched(with_facts(entry if waiting.tokens_counted else with_tokens(entry)))
            if (entry := waiting.prepared)
            else None
            for waiting in self._waiting
        ]
        packed = pack_all([entry.body for entry in entries if entry])
        self._read_tails()
        with writing():
            # First the session, because a purge locks it before it deletes its source.
            session = lock_session(self.source.project, self.source.session_id)
            source = ImportSource.objects.select_for_update().get(pk=self.source.pk)
            if _progress(source) != _progress(self.source):
                raise Conflict(
                    f"Another import of {self.start.session} is under way. Import the file again later."
                )
            started, status, head = time.monotonic(), session.status, session.head
            if self._last_equal is not None:
                _cut_off_changed_end(session, source, self._last_equal, self._tails)
            self._store(session, source, entries, packed)
            stored = [*source.provisional_digests, *(waiting.digest for waiting in self._waiting)]
            newest = self._newest_settled
            source.provisional_digests = stored[max(0, newest.number - source.settled) :]
            # An earlier import may have settled more, see MAX_PROVISIONAL.
            if newest.number >= source.settled:
                source.settled, source.settled_digest = newest.number, newest.digest
                source.settled_position = stored_position(source, newest.position)
            source.save()
            # The run's start: the time in the file, otherwise the first known time of its own entries.
            times = (known_time(entry.draft.created_at) for entry in entries if entry)
            started_at = known_time(session.created_at) or next(filter(None, times), None) or UNDATED
            set_duration(session, session.lineage())
            Session.objects.filter(pk=session.pk).update(
                status=status, created_at=started_at, duration=session.duration
            )
            seconds = time.monotonic() - started  # without the commit: a slow disk needs large batches
        if seconds > BATCH_SECONDS:
            self._max_cost = max(min(self._max_cost, self._waiting_cost) // 2, MIN_ENTRIES)
        elif seconds < BATCH_SECONDS / 2:
            self._max_cost = min(2 * self._max_cost, BATCH_ENTRIES)
        self.source, self._last_equal = source, None
        self._tails.forget()
        self._waiting, self.waiting_bytes, self._waiting_cost = [], 0, 0
        self.counts.added += session.head - head

    def flush_waiting(self) -> None:
        """Writes the waiting operations, if there are any."""
        if self._waiting:
            self.flush()

    def _read_tails(self) -> None:
        """Reads the tails that the waiting rewinds need."""
        rewinds = [row for row in self._waiting if isinstance(row.operation, RewindTo)]
        if not rewinds and self._last_equal is None:
            return
        session = read_session(self.source.project, self.source.session_id)
        if self._last_equal is not None:
            self._tails.read(session, _last_equal_position(self.source, self._last_equal))
        for waiting in rewinds:
            target = _target(waiting.operation, waiting.position)
            if target < self._waiting[0].position:  # see _begin_batch() for others
                self._tails.read(session, min(stored_position(self.source, target), session.head))

    def _with_times(self) -> list[SourceOperation]:
        """The waiting operations. Those without a time get the first known time, or :data:`UNDATED`.

        An append without a time would get the current time, which is not the time of the run.
        """
        drafts = [waiting.operation.draft for waiting in self._waiting]
        times = [draft.created_at if draft else None for draft in drafts]
        first = next(filter(None, times), UNDATED)
        pairs = zip(self._waiting, times, strict=True)
        return [waiting if time else _with_time(waiting, first) for waiting, time in pairs]

    def _store(
        self,
        session: Session,
        source: ImportSource,
        entries: list[Prepared | None],
        packed: Sequence[str | bytes],
    ) -> None:
        """Stores the waiting operations. Consecutive entries are appended together.

        Args:
            packed: the bodies of the entries. Packing long ones takes too long for a transaction.
        """
        bodies = iter(packed)
        pairs = zip(self._waiting, entries, strict=True)
        for is_append, group in groupby(pairs, lambda pair: pair[1] is not None):
            members = list(group)
            if is_append:
                first = members[0][0].position
                add_shift(source, first, session.head + 1 - first)
                prepared = [entry for _, entry in members if entry]
                own = list(islice(bodies, len(prepared)))
                append_locked(session, prepared, partial(list, own), lenient=True)
                continue
            for waiting, _ in members:
                if isinstance(rewind := waiting.operation, RewindTo):
                    add_shift(source, waiting.position, session.head + 1 - waiting.position)
                    to_position = min(
                        stored_position(source, _target(rewind, waiting.position)), session.head
                    )
                    reason, actor = rewind.reason or None, rewind.actor or None
                    body = Rewind(to_position=to_position, spans=(), reason=reason, actor=actor)
                    draft = rewind.draft._replace(body=body) if rewind.draft else EntryDraft(body)
                    _rewind_to(session, to_position, draft, self._tails)


def _progress(source: ImportSource) -> tuple[Any, ...]:
    """Values that every import of the session changes."""
    return source.settled, source.settled_digest, source.provisional_digests


def _with_time(waiting: SourceOperation, time: datetime) -> SourceOperation:
    operation = waiting.operation
    if isinstance(operation, Append):
        operation = operation._replace(draft=operation.draft._replace(created_at=time))
        prepared = waiting.prepared and waiting.prepared._replace(draft=operation.draft)
        return waiting._replace(operation=operation, prepared=prepared)
    draft = operation.draft or EntryDraft(Rewind(to_position=operation.to_position, spans=()))
    return waiting._replace(operation=replace(operation, draft=draft._replace(created_at=time)))


def _cut_off_changed_end(
    session: Session, source: ImportSource, last_equal: SourceOperation, tails: Tails
) -> None:
    """Rewinds to the last operation that has not changed. The entries after it become a take."""
    to_position = _last_equal_position(source, last_equal)
    source.provisional_digests = source.provisional_digests[: last_equal.number - source.settled]
    reason = "the end of the file has changed"
    draft = EntryDraft(Rewind(to_position=to_position, spans=(), reason=reason, actor="import"))
    _rewind_to(session, to_position, draft, tails)


def _rewind_to(session: Session, position: int, draft: EntryDraft, tails: Tails) -> None:
    remaining = session.lineage(position).cut(position)
    rewind_locked(session, draft, "import", remaining, tails.of(remaining))
    tails.count_copy(session)


def _target(rewind: Append | RewindTo, position: int) -> int:
    """The position in the file to which a rewind at a position goes: one before it."""
    assert isinstance(rewind, RewindTo)
    return min(rewind.to_position, position - 1)


def _last_equal_position(source: ImportSource, last_equal: SourceOperation) -> int:
    """The position of the last operation that has not changed, in the stored session."""
    is_unsettled = last_equal.number > source.settled
    return stored_position(source, last_equal.position) if is_unsettled else source.settled_position
