"""Carrying out what an importer reads, for one session of one transcript.

Operations are counted and digested as they come. Those that an earlier import has carried out are only
compared, so importing again adds nothing and a grown file adds what is new. Each batch is written in one
transaction together with how far the file has been read: a kill costs at most the batch under way.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from historyapp.core.conversation import Progress
from historyapp.core.entries import EntryDraft, ModelOutput, Rewind, ToolResults
from historyapp.core.errors import Conflict
from historyapp.core.importers.base import Append, Operation, RewindTo, SessionStart, Summarised
from historyapp.core.json import dump_json
from historyapp.core.prepared import Prepared, prepare
from historyapp.core.tokens import entry_tokens
from historyapp.models import Entry, ImportSource, Session
from historyapp.services.append import append_locked, lock_session
from historyapp.services.imports.parser import ParsedOperation
from historyapp.services.imports.summaries import write_summaries
from historyapp.services.rewinds import path_to, rewind_locked
from historyapp.services.transactions import writing

BATCH = 1000
"""Operations written in one transaction, at most."""
BATCH_SIZE = 8 * 1024 * 1024
"""Bytes from which a transaction is written, however few operations it has."""
_PLACES = frozenset({"line", "index", "message", "row"})
"""Fields of ``metadata.source`` that say where a record stands."""
_MARK = "c"
"""Begins the digests of content. Those of earlier versions, which covered the places too, are plain hex."""
_LENGTH = 64


class DifferentBeginning(Exception):
    """A file of this session id has been imported before, and began differently."""


@dataclass(slots=True)
class Counts:
    """What a transcript holds, whether it was imported now or before."""

    entries: int = 0
    steps: int = 0
    calls: int = 0
    results: int = 0
    unpaired_calls: int = 0
    """Calls without a result."""
    unpaired_results: int = 0
    """Results that answer no call of the step they follow."""
    added: int = 0
    """Entries that this import put into the log, rewinds included."""
    progress: Progress = field(default_factory=Progress)

    def see(self, operation: Operation) -> None:
        if isinstance(operation, RewindTo):
            self.close()
        if not isinstance(operation, Append):
            return
        self.entries += 1
        body = operation.draft.body
        if isinstance(body, ModelOutput):
            self.close()
            self.steps += 1
            self.progress = Progress.begin(body)
            self.calls += len(body.tool_calls) or bool(body.use_tool)
        elif isinstance(body, ToolResults):
            self.results += len(body.results)
            self.progress, answered = self.progress.take(body.results)
            self.unpaired_results += sum(not calls for _, calls in answered)

    def close(self) -> None:
        """Whatever is still open stays open."""
        self.unpaired_calls += len(self.progress.pending)
        self.progress = Progress()


class _SourceOperation(NamedTuple):
    """An operation, its position in the source and its place in the chain of digests."""

    operation: Append | RewindTo
    number: int
    position: int
    chain: str
    earlier_chain: str = ""
    """As an earlier version made it, for a source that one has read; else empty."""
    prepared: Prepared | None = None
    """An entry as it will be stored."""
    counted: bool = True
    """Whether its tokens have been counted."""

    @property
    def provisional(self) -> bool:
        return isinstance(self.operation, Append) and self.operation.provisional

    def is_stored_as(self, digest: str) -> bool:
        """Whether a stored digest is of this operation and all before it."""
        return digest in (self.chain, self.earlier_chain)

    def entry(self) -> Prepared | None:
        """The entry with its tokens; None for what is no entry."""
        if self.prepared is None or self.counted:
            return self.prepared
        return self.prepared._replace(tokens=entry_tokens(self.prepared.draft.body))


class SessionWriter:
    """One session of one transcript on its way into the log.

    Args:
        source: how far it has been read before; its session exists.
    """

    def __init__(self, start: SessionStart, source: ImportSource) -> None:
        self.start, self.source, self.counts = start, source, Counts()
        self._settled = source.settled
        self._tail: list[str] = source.provisional_digests
        """Digests of what the last import read at the file's end, which may have changed since."""
        self._of_earlier_version = any(map(is_earlier, (source.settled_digest, *self._tail)))
        self._agreed: _SourceOperation | None = None
        """The newest operation as the last import read it, once a later one reads differently."""
        self._waiting: list[_SourceOperation] = []
        self._waiting_size = 0
        self._summaries: list[Summarised] = []
        self._time = start.created_at
        self._head_before = source.session.head if source.settled else 0
        """What came before this import stays as it was: nothing is said to have been made earlier."""
        self._last = _SourceOperation(
            RewindTo(start.session, 0), 0, start.forked_from[1] if start.forked_from else 0, ""
        )
        self._mark = self._last
        """The newest operation that is there for good."""

    def take(self, told: ParsedOperation) -> None:
        """One more operation of the session, in the file's order.

        Raises:
            OtherBeginning: when the file does not begin with what was imported of this session.
            Conflict: when another import of the same session got in between.
        """
        operation = told.operation
        if isinstance(operation, Summarised):
            self._summaries.append(operation)  # apart: one may be made later, of what was imported before
            if len(self._summaries) >= BATCH and self._last.number >= self._settled:
                self._write_summaries()
            return
        assert isinstance(operation, (Append, RewindTo))
        self.counts.see(operation)
        operation = self._timed(operation)
        before = self._last
        prepared = told.prepared
        if prepared is None and isinstance(operation, Append):
            prepared = prepare(operation.draft, tokens=0)  # they are counted once it is known to be new
        if prepared is not None and isinstance(operation, Append):
            prepared = prepared._replace(draft=operation.draft)
        counted = told.prepared is not None
        chain, earlier = self._chained(before, operation, prepared)
        read = _SourceOperation(
            operation, before.number + 1, before.position + 1, chain, earlier, prepared, counted
        )
        if not read.provisional and self._mark is before:
            self._mark = read
        self._last = read
        if read.number > self._settled:
            self._add(before, read)
        elif read.number == self._settled and not read.is_stored_as(self.source.settled_digest):
            raise DifferentBeginning(self.start.session)

    def _chained(
        self, before: _SourceOperation, operation: Append | RewindTo, prepared: Prepared | None
    ) -> tuple[str, str]:
        """The operation's digests, as this version makes them and as an earlier one did."""
        chain = digest_of(before.chain, operation, prepared)
        if not self._of_earlier_version:
            return chain, ""
        return chain, earlier_digest_of(before.earlier_chain, operation, prepared)

    def _timed(self, operation: Append | RewindTo) -> Append | RewindTo:
        """The operation, without a time of its own that of the one before it."""
        draft = operation.draft
        if draft is not None and draft.created_at is not None:
            self._time = draft.created_at
        elif self._time is not None:
            return _at(self._time, operation)
        return operation

    def finish(self) -> None:
        """Writes what is still waiting.

        Raises:
            OtherBeginning: when the file is shorter than what was imported, and no beginning of that.
        """
        self.counts.close()
        if self._last.number < self._settled:
            # What is told only because the file ended need not be what the longer file went on with.
            if not self._is_known(self._mark if self._mark.number else self._last):
                raise DifferentBeginning(self.start.session)
            return
        if self._waiting or self._mark.number > self.source.settled:
            self.flush()
        self._write_summaries()

    def _add(self, before: _SourceOperation, read: _SourceOperation) -> None:
        """The last import's provisional operations are there already, until one reads differently now."""
        place = read.number - self._settled - 1
        if place < len(self._tail):
            if read.is_stored_as(self._tail[place]):
                return
            self._agreed, self._tail = before, []
        self._waiting.append(read)
        self._waiting_size += read.prepared.size if read.prepared else 0
        if len(self._waiting) >= BATCH or self._waiting_size >= BATCH_SIZE:
            self.flush()

    def _is_known(self, read: _SourceOperation) -> bool:
        """Whether the session holds this operation where it should; entries before it are taken on trust."""
        if not isinstance(read.operation, Append):
            return True
        position = shifted(self.source, read.position)
        entry = Entry.objects.filter(session_id=self.source.session_id, position=position).first()
        return entry is not None and entry.core().body == read.operation.draft.body

    def _write_summaries(self) -> None:
        """Writes the waiting summaries, behind the entries that they stand for."""
        if not self._summaries:
            return
        if self._waiting:
            self.flush()
        waiting, self._summaries = self._summaries, []
        for start in range(0, len(waiting), BATCH):
            with writing():
                session = lock_session(self.source.project, self.source.session_id)
                write_summaries(session, [self._placed(told) for told in waiting[start : start + BATCH]])

    def _placed(self, told: Summarised) -> Summarised:
        """The summary with the session's positions."""
        first, last = shifted(self.source, told.first_position), shifted(self.source, told.last_position)
        made_at = None if told.made_at is None else max(shifted(self.source, told.made_at), self._head_before)
        return replace(told, first_position=first, last_position=last, made_at=made_at)

    def flush(self) -> None:
        """Writes the waiting operations and how far the file has been read, in one transaction."""
        prepared = [read.entry() for read in self._waiting]
        with writing():
            source = ImportSource.objects.select_for_update().get(pk=self.source.pk)
            if _progress(source) != _progress(self.source):
                raise Conflict(f"Another import of {self.start.session} is under way. Import it again later.")
            session = lock_session(source.project, source.session_id)
            status, head = session.status, session.head
            if self._agreed is not None:
                _cut_back(session, source, self._agreed)
            self._carry_out(session, source, prepared)
            stored = [*source.provisional_digests, *(read.chain for read in self._waiting)]
            source.provisional_digests = stored[self._mark.number - source.settled :]
            source.settled, source.settled_digest = self._mark.number, self._mark.chain
            source.settled_position = shifted(source, self._mark.position)
            source.save()
            Session.objects.filter(pk=session.pk).update(status=status)
        self.source, self._agreed = source, None
        self._waiting, self._waiting_size = [], 0
        self.counts.added += session.head - head

    def _carry_out(self, session: Session, source: ImportSource, prepared: list[Prepared | None]) -> None:
        """Runs of entries in one append each."""
        reads = zip(self._waiting, prepared, strict=True)
        for appends, group in groupby(reads, lambda pair: pair[1] is not None):
            run = list(group)
            first = run[0][0]
            if appends:
                _shift(source, first.position, session.head + 1 - first.position)
                entries = [entry for _, entry in run if entry]
                append_locked(session, entries, lenient=True)
                continue
            for read, _ in run:
                if isinstance(read.operation, RewindTo):
                    _shift(source, read.position, session.head + 1 - read.position)
                    _rewind(session, source, read.operation)


def _progress(source: ImportSource) -> tuple[int, str, list[str]]:
    """What another import of the same session would have changed."""
    return source.settled, source.settled_digest, source.provisional_digests


def _cut_back(session: Session, source: ImportSource, agreed: _SourceOperation) -> None:
    """Cuts off what the file now gives differently, so that it stays as a take."""
    kept = agreed.number - source.settled
    source.provisional_digests = source.provisional_digests[:kept]
    to_position = shifted(source, agreed.position) if kept else source.settled_position
    reason = "the end of the file reads differently now"
    draft = EntryDraft(Rewind(to_position=to_position, spans=(), reason=reason, actor="import"))
    rewind_locked(session, path_to(session, to_position), draft, "import")


def _at(moment: datetime, operation: Append | RewindTo) -> Append | RewindTo:
    if isinstance(operation, Append):
        return operation._replace(draft=operation.draft._replace(created_at=moment))
    draft = operation.draft or EntryDraft(Rewind(to_position=operation.to_position, spans=()))
    return replace(operation, draft=draft._replace(created_at=moment))


def _rewind(session: Session, source: ImportSource, read: RewindTo) -> None:
    to_position = min(shifted(source, read.to_position), session.head)
    body = Rewind(to_position=to_position, spans=(), reason=read.reason or None, actor=read.actor or None)
    draft = read.draft._replace(body=body) if read.draft else EntryDraft(body)
    rewind_locked(session, path_to(session, to_position), draft, "import")


def _shift(source: ImportSource, position: int, by: int) -> None:
    """Notes that from this source position on, entries lie ``by`` positions further in the session."""
    if by != (source.shifts[-1][1] if source.shifts else 0):
        source.shifts.append([position, by])


def shifted(source: ImportSource, position: int) -> int:
    """The session's position for a position in the source."""
    by = 0
    for since, shift in source.shifts:
        if since <= position:
            by = shift
    return position + by


def digest_of(before: str, operation: Operation, prepared: Prepared | None) -> str:
    """A digest of an operation's content, chained to the one before."""
    return (_MARK + _hash(before, operation, prepared, _without_places(prepared)))[:_LENGTH]


def earlier_digest_of(before: str, operation: Operation, prepared: Prepared | None) -> str:
    """The digest that earlier versions stored: of the content and of the places."""
    return _hash(before, operation, prepared, prepared.metadata if prepared else "")


def is_earlier(digest: str) -> bool:
    """Whether an earlier version stored it."""
    return bool(digest) and not digest.startswith(_MARK)


def _hash(before: str, operation: Operation, prepared: Prepared | None, metadata: str) -> str:
    if prepared is not None:
        text = f"{prepared.draft.body.kind}\n{prepared.body}\n{metadata}"
    elif isinstance(operation, RewindTo):
        text = f"rewind to {operation.to_position}: {operation.reason}"
    else:
        text = ""
    return hashlib.sha256(f"{before}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()


def _without_places(prepared: Prepared | None) -> str:
    if prepared is None:
        return ""
    metadata = prepared.draft.metadata
    source = metadata.get("source")
    if not isinstance(source, Mapping) or _PLACES.isdisjoint(source):
        return prepared.metadata
    kept = {name: value for name, value in source.items() if name not in _PLACES}
    return dump_json({**metadata, "source": kept})
