"""Finds or creates the sessions of one transcript during its import."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any
from uuid import UUID

from django.db import IntegrityError
from django.db.models import F, QuerySet
from pydantic import ValidationError
from uuid_utils.compat import uuid7

from historyapp.core.dates import UNDATED
from historyapp.core.entries import EntryDraft, Rewind
from historyapp.core.errors import Conflict
from historyapp.core.importers.base import AddNote, AddSummary, Append, RewindTo, SessionStart, Skipped
from historyapp.core.importers.playhead_jsonl import PLAYHEAD_JSONL
from historyapp.core.settings import SessionSettings, load_settings
from historyapp.core.text import clean
from historyapp.llm.router import LOCAL
from historyapp.models import ImportSource, Project, Session
from historyapp.models.relatives import MAX_ANCESTORS, ancestors
from historyapp.models.session_folds import children_of
from historyapp.services.annotations import import_annotation
from historyapp.services.append import lock_session, read_session
from historyapp.services.audit import was_deleted
from historyapp.services.compression.start import set_thresholds
from historyapp.services.disk_space import check_disk_space
from historyapp.services.imports.headers import stored_id, with_values
from historyapp.services.imports.limits import MAX_WAITING_BYTES, check_number_of_sessions, report_left_out
from historyapp.services.imports.parser import ParsedOperation
from historyapp.services.imports.reports import FileReport, SessionReport
from historyapp.services.imports.shifts import stored_position
from historyapp.services.imports.tails import Tails
from historyapp.services.imports.writer import DifferentBeginning, SessionWriter
from historyapp.services.rewinds import begin_fork, check_depth, rewind_locked
from historyapp.services.sessions import change_session, dump_settings
from historyapp.services.subagents import LINKED_AT_ONCE, link_subagents
from historyapp.services.summaries import increase_revisions
from historyapp.services.transactions import lock_together, write_in_parts, writing

MAX_VARIANTS = 50
"""The maximum number of sessions that share an id and begin differently."""
MAX_COMPARED = 200
"""Sessions of a file that are compared with all their variants in one pass; others with one variant."""


def may_be_empty(start: SessionStart, format: str) -> bool:
    """Whether a session without entries is stored. In most formats, it means that the file has another
    format."""
    return format == PLAYHEAD_JSONL.name or start.forked_from is not None


class ImportJob:
    """The sessions of one file during its import.

    Args:
        variants: by source id, the number of imported sessions that have this id and begin differently.
    """

    def __init__(self, project: Project, report: FileReport, variants: Counter[str]) -> None:
        self.project, self.format, self.report, self.variants = project, report.format, report, variants
        self.starts: dict[str, SessionStart] = {}
        self.writers: dict[str, SessionWriter] = {}
        """By source id, for the sessions that have an entry."""
        self.ignored: set[str] = set()
        """Sessions whose complete transcript was imported, while this file has only a part."""
        self.new: set[str] = set()
        self._tails = Tails()
        self._waiting_bytes = 0
        """At least the memory of the operations that wait in all writers."""

    def add(self, parsed: ParsedOperation) -> None:
        session = getattr(parsed.operation, "session", "")
        self.report.lines.add(parsed.operation, is_used=session not in self.ignored)
        match parsed.operation:
            case Append() | RewindTo() as operation:
                if operation.session not in self.ignored:
                    writer = self._writer(operation.session)
                    before = writer.waiting_bytes
                    writer.add(parsed)
                    self._waiting_bytes += max(0, writer.waiting_bytes - before)
                    if self._waiting_bytes > MAX_WAITING_BYTES:
                        self._limit_waiting()
            case AddSummary(session=id) | AddNote(session=id):
                if id in self.writers:
                    self.writers[id].add(parsed)
            case Skipped() as skipped:
                self.report.skip(skipped)
            case SessionStart(session=id) as start:
                if id in self.starts or id in self.ignored:
                    return
                if start.whole_copy and self._matching_sources(start.whole_copy).exists():
                    self.ignored.add(id)
                else:
                    check_number_of_sessions(len(self.starts) + 1)
                    self.starts[id] = start

    def _limit_waiting(self) -> None:
        """Writes the largest batches if all together take too much memory, until half of it is free.

        Otherwise thousands of sessions, each with less than a batch, would wait until the end of the file.
        """
        self._waiting_bytes = sum(writer.waiting_bytes for writer in self.writers.values())
        if self._waiting_bytes <= MAX_WAITING_BYTES:
            return
        for writer in sorted(self.writers.values(), key=lambda writer: writer.waiting_bytes, reverse=True):
            if self._waiting_bytes <= MAX_WAITING_BYTES // 2:
                break
            self._waiting_bytes -= writer.waiting_bytes
            writer.flush_waiting()

    def compare(self, operations: Iterable[ParsedOperation]) -> dict[str, int]:
        """For each session of a file, its variant: the first one that does not begin differently, or a new
        one. Stores nothing.

        One pass compares all variants: a pass for each took 16 minutes for 100 files with one id, 57 KB.
        """
        compared: dict[str, _Variants] = {}
        for parsed in operations:
            operation = parsed.operation
            if isinstance(operation, SessionStart):
                self.starts.setdefault(operation.session, operation)
            elif isinstance(operation, (Append, RewindTo)):
                id = operation.session
                if id not in compared:
                    compared[id] = self._variants(id, is_memory_left=len(compared) < MAX_COMPARED)
                compared[id].add(parsed)
        return {id: variants.first_equal() for id, variants in compared.items()}

    def _variants(self, id: str, *, is_memory_left: bool) -> "_Variants":
        first = self.variants[id]
        sources = self._matching_sources(id).filter(variant__gte=first).order_by("variant")
        loaded = sources[: MAX_VARIANTS + 1 if is_memory_left else 1]
        return _Variants(first, [SessionWriter(self.starts[id], source, Tails()) for source in loaded])

    def finish(self) -> None:
        for source_id, start in self.starts.items():
            if may_be_empty(start, self.format):
                self._writer(source_id)
        for source_id, writer in self.writers.items():
            writer.finish()
            changed = source_id in self.new or writer.counts.added
            if changed and writer.start.status == Session.Status.ARCHIVED:
                archived = {"status": Session.Status.ARCHIVED}
                change_session(self.project, writer.source.session_id, archived, actor="import")
        link_subagents(writer.source.session_id for writer in self.writers.values())

    def sessions(self) -> list[SessionReport]:
        writers = [(id, self.writers[id]) for id in self.starts if id in self.writers]
        return [
            SessionReport(writer.source.session_id, id, writer.start.title, id in self.new, writer.counts)
            for id, writer in writers
        ]

    def _matching_sources(self, source_id: str) -> QuerySet[ImportSource]:
        return ImportSource.objects.filter(
            project=self.project, format=self.format, source_id=stored_id(source_id)
        )

    def _writer(self, id: str) -> SessionWriter:
        """The writer of a session in ``starts``. Creates the session and its ancestors if necessary."""
        missing = dict[str, SessionStart]()
        parent: str | None = id
        while parent in self.starts and parent not in self.writers and parent not in missing:
            start = missing[parent] = self.starts[parent]
            parent = start.forked_from[0] if start.forked_from else None
        if parent in missing:  # a file may name a session as its own ancestor
            missing[start.session] = self.starts[start.session] = replace(start, forked_from=None)
        for start in reversed(missing.values()):  # a file may have a long chain of forks
            position = self._fork_position(start)
            complete = with_values(start)
            try:
                with writing():
                    source = self._find_or_create_source(complete, position)
            except IntegrityError as error:
                detail = f"Another import of {start.session} is under way. Import it again later."
                raise Conflict(detail) from error
            self._link(source)
            self.writers[start.session] = SessionWriter(start, source, self._tails)
        return self.writers[id]

    def _fork_position(self, start: SessionStart) -> int | None:
        """The position in the stored parent at which a new session forks from it; None if it does not.

        Reads the tail at this position, before the transaction that creates the fork.
        """
        if not start.forked_from or start.forked_from[0] not in self.starts:
            return None
        if self._source(start) is not None:
            return None
        parent = self._writer(start.forked_from[0])
        parent.flush_waiting()
        session = read_session(self.project, parent.source.session_id)
        check_depth(session)
        position = min(stored_position(parent.source, start.forked_from[1]), session.head)
        self._tails.read(session, position)
        return position

    def _find_or_create_source(self, start: SessionStart, position: int | None) -> ImportSource:
        """The session's progress of import. The first import creates the session.

        Args:
            position: the result of :meth:`_fork_position`.
        """
        variant, source = self.variants[start.session], self._source(start)
        if source is None and not variant:
            source = self._replace_partial_copy(start)
        if source is None:
            self.new.add(start.session)
            report_left_out(self.report, start)
            source = self._create(start, variant, position)
        return source

    def _source(self, start: SessionStart) -> ImportSource | None:
        sources = self._matching_sources(start.session)
        return sources.filter(variant=self.variants[start.session]).first()

    def _replace_partial_copy(self, start: SessionStart) -> ImportSource | None:
        """The source of a partial copy of this session, reset so that the complete copy is imported; or None.

        Claude Code repeats parts of a sub-agent's session in the file of the agent that started it. The
        sub-agent's own file is complete. Both become one session, whichever is imported first. The entries of
        the partial copy become a take.
        """
        if not start.partial_copy:
            return None
        copies = self._matching_sources(start.partial_copy).filter(variant=0)
        found = copies.first()
        session = lock_session(self.project, found.session_id) if found else None
        source = copies.select_for_update().first() if session else None
        if source is None or session is None:
            return None
        reason = "replaced by the complete transcript of this session"
        body = Rewind(to_position=0, spans=(), reason=reason, actor="import")
        rewind_locked(session, EntryDraft(body), "import")
        source.source_id = stored_id(start.session)
        source.settled, source.settled_digest, source.provisional_digests, source.shifts = 0, "", [], []
        source.settled_position = session.head
        source.session_id = session.pk
        source.save()
        return source

    def _create(self, start: SessionStart, variant: int, position: int | None) -> ImportSource:
        check_disk_space()
        session, shifts = self._new_session(start), list[list[int]]()
        if start.forked_from is not None and start.forked_from[0] in self.starts:
            if position is None:  # a purge has deleted the fork's source meanwhile
                raise Conflict(f"{start.session} was deleted during the import. Import the file again.")
            parent = self._writer(start.forked_from[0])
            session.forked_from = lock_session(self.project, parent.source.session_id)
            shifts = [shift for shift in parent.source.shifts if shift[0] <= start.forked_from[1]]
            shared = session.forked_from.lineage(position).cut(position)
            begin_fork(session, shared, position, self._tails.of(shared))
            self._tails.count_copy(session)
        else:
            session.save(force_insert=True)
        import_annotation(session, start.annotation)
        return ImportSource.objects.create(
            project=self.project,
            format=self.format,
            source_id=stored_id(start.session),
            variant=variant,
            file=clean(self.report.name)[-300:],
            session_id=session.pk,  # the session's values would stay in memory until the end of the file
            settled_position=session.head,
            shifts=shifts,
            spawned_by=stored_id(start.spawned_by or ""),
        )

    def _new_session(self, start: SessionStart) -> Session:
        own_id = _uuid(start.session)
        if own_id and (Session.objects.filter(pk=own_id).exists() or was_deleted(own_id)):
            own_id = None
        # An archived session accepts no entries, so the status is set after the import.
        open_statuses = {Session.Status.LIVE, Session.Status.FINISHED}
        session = Session(
            id=own_id or uuid7(),
            project=self.project,
            title=start.title,
            agent=start.agent,
            model=start.model,
            status=start.status if start.status in open_statuses else Session.Status.FINISHED,
            settings=self._settings(start),
            metadata=dict(start.metadata),
        )
        session.created_at = session.last_entry_at = start.created_at or UNDATED
        session.tags = start.tags
        set_thresholds(session)
        return session

    def _settings(self, start: SessionStart) -> dict[str, Any]:
        try:
            known = ((name, start.settings.get(name)) for name in SessionSettings.model_fields)
            texts = {name: clean(text[:200]) for name, text in known if isinstance(text, str)}
            texts.pop("summary_instruction", None)
            settings = dump_settings(load_settings({**start.settings, **texts}))
            if settings.get("llm_name", LOCAL) != LOCAL:
                del settings["llm_name"]  # a file must not choose a model that others pay for later
                self.report.skip(Skipped(1, "the session's settings: llm_name: choose it in Playhead"))
            if settings.pop("summary_instruction", None):  # nor instructions for a model
                self.report.skip(
                    Skipped(1, "the session's settings: summary_instruction: set it in Playhead")
                )
            return settings
        except ValidationError as error:
            first_error = error.errors(include_url=False, include_input=False)[0]
            setting = ".".join(map(str, first_error["loc"]))
            name = f"{setting}: " if setting else ""
            self.report.skip(Skipped(1, f"the session's settings: {name}{first_error['msg']}"))
            return {}

    def _link(self, source: ImportSource) -> None:
        """Links the sessions of sub-agents to the session that started them, whichever is imported first.

        A session may have started thousands, so it links them in transactions of their own. The next import
        of any of these sessions links those that an interrupted import did not reach.

        The parent may be a session that was exported from this server. Then its source id is its own id.
        """
        others = ImportSource.objects.filter(project=self.project, format=self.format).exclude(pk=source.pk)
        children = others.filter(spawned_by=source.source_id)
        if source.source_id not in self.new:
            children = children.filter(session__spawned_by=None)
        found = set(children.values_list("session_id", flat=True))
        if found and len(older := ancestors(source.session_id)) <= MAX_ANCESTORS:
            write_in_parts(sorted(found - older), LINKED_AT_ONCE, partial(_link_children, source))
        session = Session.objects.filter(pk=source.session_id)
        if source.spawned_by and session.filter(spawned_by=None).exists():
            self._link_parent(source, others.filter(source_id=source.spawned_by).order_by("variant").first())

    def _link_parent(self, source: ImportSource, imported: ImportSource | None) -> None:
        parent = imported.session_id if imported else _uuid(source.spawned_by)
        if parent is None or _would_start_itself(source.session_id, parent):
            return  # a file may name a session as its own ancestor
        with writing():
            if Session.objects.filter(pk=parent, project=self.project).exists():
                increase_revisions(parent, {source.session_id})
                Session.objects.filter(pk=source.session_id).update(spawned_by=parent)


def _would_start_itself(session: UUID, parent: UUID) -> bool:
    """Whether a session is, or is an ancestor of, the one that is to start it, or the chain is too long.

    The list of sessions shows forks and sub-agents below their parents, so it would not show a cycle.
    """
    if parent == session:
        return True
    if not children_of(Session.objects.all(), session).exists():  # most sessions; a chain may be long
        return False
    older = ancestors(parent)
    return session in older or len(older) > MAX_ANCESTORS


def _link_children(source: ImportSource, ids: Sequence[UUID]) -> None:
    rows = Session.objects.filter(pk__in=ids, project=source.project_id)
    lock_together(rows)
    rows.update(spawned_by=source.session_id, revision=F("revision") + 1)


class _Variants:
    """The imported sessions with one id, while a file is compared with them.

    Args:
        first: the first variant that is compared.
    """

    def __init__(self, first: int, writers: Iterable[SessionWriter]) -> None:
        self._first = first
        self._writers = {writer.source.variant: writer for writer in writers}
        self._numbers = set(self._writers)

    def add(self, parsed: ParsedOperation) -> None:
        self._keep_equal(lambda writer: writer.add(parsed))

    def first_equal(self) -> int:
        """The first variant that does not begin differently; a new one if all do."""
        self._keep_equal(SessionWriter.finish)
        numbers = count(self._first)
        return next(number for number in numbers if number in self._writers or number not in self._numbers)

    def _keep_equal(self, compare: Callable[[SessionWriter], None]) -> None:
        for number, writer in [*self._writers.items()]:
            if writer.is_comparing:
                try:
                    compare(writer)
                except DifferentBeginning:
                    del self._writers[number]


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
