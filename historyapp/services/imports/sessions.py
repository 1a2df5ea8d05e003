"""The sessions of one transcript while it is read: found again where they are known, else made."""

from collections import Counter
from typing import Any
from uuid import UUID

from django.db import IntegrityError
from django.db.models import QuerySet
from pydantic import ValidationError
from uuid_utils.compat import uuid7

from historyapp.core.entries import EntryDraft, Rewind
from historyapp.core.errors import Conflict
from historyapp.core.importers.base import Append, RewindTo, SessionStart, Skipped, Summarised
from historyapp.core.importers.playhead_jsonl import PLAYHEAD_JSONL
from historyapp.core.settings import load_settings
from historyapp.core.text import clean, preview
from historyapp.models import ImportSource, Project, Session
from historyapp.services.append import lock_session
from historyapp.services.compression.marks import arm
from historyapp.services.imports.parser import ParsedOperation
from historyapp.services.imports.reports import FileReport, SessionReport
from historyapp.services.imports.writer import SessionWriter, shifted
from historyapp.services.rewinds import begin_fork, path_to, rewind_locked
from historyapp.services.sessions import change_session, dump_settings
from historyapp.services.summaries import touch
from historyapp.services.transactions import writing


def may_be_empty(start: SessionStart, format: str) -> bool:
    """Whether a session without an entry is one. Elsewhere, none shows that the format is another one."""
    return format == PLAYHEAD_JSONL.name or start.forked_from is not None


class ImportJob:
    """The sessions of one file while it is read."""

    def __init__(self, project: Project, report: FileReport, variants: Counter[str]) -> None:
        self.project, self.format, self.report, self.variants = project, report.format, report, variants
        self.starts: dict[str, SessionStart] = {}
        self.writers: dict[str, SessionWriter] = {}
        """Of the sessions that have an entry."""
        self.passed_over: set[str] = set()
        """Sessions of which another transcript has told more."""
        self.new: set[str] = set()

    def take(self, read: ParsedOperation) -> None:
        match read.operation:
            case Append() | RewindTo() as operation:
                if operation.session not in self.passed_over:
                    self._writer(operation.session).take(read)
            case Summarised(session=session):
                if session in self.writers:
                    self.writers[session].take(read)
            case Skipped() as skipped:
                self.report.skip(skipped)
            case SessionStart() as start:
                self._start(start)

    def finish(self) -> None:
        for source_id, start in self.starts.items():
            if may_be_empty(start, self.format):
                self._writer(source_id)
        for source_id, writer in self.writers.items():
            writer.finish()
            is_news = source_id in self.new or writer.counts.added
            if is_news and writer.start.status == Session.Status.ARCHIVED:
                archived = {"status": Session.Status.ARCHIVED}
                change_session(self.project, writer.source.session_id, archived, actor="import")

    def sessions(self) -> list[SessionReport]:
        writers = [(id, self.writers[id]) for id in self.starts if id in self.writers]
        return [
            SessionReport(
                writer.source.session_id, source_id, writer.start.title, source_id in self.new, writer.counts
            )
            for source_id, writer in writers
        ]

    def _start(self, start: SessionStart) -> None:
        if start.session in self.starts or start.session in self.passed_over:
            return
        if is_known_whole(self.project, self.format, start):
            self.passed_over.add(start.session)
        else:
            self.starts[start.session] = start

    def _writer(self, session: str) -> SessionWriter:
        """The writer of a session that was announced. The session is made here, so that none stays empty."""
        if session not in self.writers:
            start = self.starts[session]
            try:
                with writing():
                    source = self._source(start)
            except IntegrityError as error:
                raise Conflict(f"Another import of {session} is under way. Import it again later.") from error
            self.writers[session] = SessionWriter(start, source)
        return self.writers[session]

    def _source(self, start: SessionStart) -> ImportSource:
        """How far the session has been read before; made, with its session, when it never was."""
        variant = self.variants[start.session]
        known = ImportSource.objects.filter(
            project=self.project, format=self.format, source_id=key_of(start.session), variant=variant
        ).first()
        if known is None and not variant:
            known = take_over(self.project, self.format, start)
        if known is not None:
            return known
        self.new.add(start.session)
        return self._create(start, variant)

    def _create(self, start: SessionStart, variant: int) -> ImportSource:
        session, shifts = self._new_session(start), list[list[int]]()
        if start.forked_from is not None and start.forked_from[0] in self.starts:
            parent = self._writer(start.forked_from[0])
            parent.flush()
            session.forked_from = Session.objects.get(pk=parent.source.session_id)
            position = min(shifted(parent.source, start.forked_from[1]), session.forked_from.head)
            shifts = [shift for shift in parent.source.shifts if shift[0] <= start.forked_from[1]]
            begin_fork(session, path_to(session.forked_from, position), position)
        else:
            session.save(force_insert=True)
        source = ImportSource.objects.create(
            project=self.project,
            format=self.format,
            source_id=key_of(start.session),
            variant=variant,
            file=clean(self.report.name)[-300:],
            session=session,
            settled_position=session.head,
            shifts=shifts,
            spawned_by=key_of(start.spawned_by or ""),
        )
        self._link(source)
        return source

    def _new_session(self, start: SessionStart) -> Session:
        open_as = {Session.Status.LIVE, Session.Status.FINISHED}  # an archived one takes no entries
        session = Session(
            id=_free_id(start.session),
            project=self.project,
            title=clean(start.title)[:300],
            agent=clean(start.agent)[:200],
            model=clean(start.model)[:200],
            status=start.status if start.status in open_as else Session.Status.FINISHED,
            settings=self._settings(start),
            metadata=dict(start.metadata),
        )
        if start.created_at is not None:
            session.created_at = session.last_entry_at = start.created_at
        session.tags = [preview(tag, 100) for tag in start.tags if tag.strip()]
        arm(session)
        return session

    def _settings(self, start: SessionStart) -> dict[str, Any]:
        try:
            return dump_settings(load_settings(start.settings))
        except ValidationError as error:
            wrong = error.errors(include_url=False, include_input=False)[0]
            setting = ".".join(map(str, wrong["loc"]))
            self.report.skip(Skipped(1, f"the session's settings: {setting}: {wrong['msg']}"))
            return {}

    def _link(self, source: ImportSource) -> None:
        """Ties a sub-agent's session to its parent's, whichever of the two was imported first."""
        family = ImportSource.objects.filter(project=self.project, format=self.format).exclude(pk=source.pk)
        children = set(family.filter(spawned_by=source.source_id).values_list("session_id", flat=True))
        parent = self._parent(source, family)
        if children:
            Session.objects.filter(pk__in=children, project=self.project).update(spawned_by=source.session)
            for child in sorted(children):
                touch(child)
        if parent is not None:
            Session.objects.filter(pk=source.session_id).update(spawned_by=parent)
            touch(parent)

    def _parent(self, source: ImportSource, family: QuerySet[ImportSource]) -> UUID | None:
        """The session whose agent started this one: imported too, or one that was exported from here."""
        if not source.spawned_by:
            return None
        imported = family.filter(source_id=source.spawned_by).order_by("variant").first()
        if imported is not None:
            return imported.session_id
        id = _uuid(source.spawned_by)
        return id if id and Session.objects.filter(pk=id, project=self.project).exists() else None


def _free_id(source_id: str) -> UUID:
    """The source's own id where it is a UUID that nobody uses here, else a new one."""
    own = _uuid(source_id)
    return own if own and not Session.objects.filter(pk=own).exists() else uuid7()


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def key_of(source_id: str) -> str:
    """A source id as it is stored."""
    return clean(source_id)[:300]


def is_known_whole(project: Project, format: str, start: SessionStart) -> bool:
    """Whether the session that ``start`` tells in part has been imported whole."""
    if not start.whole_copy:
        return False
    known = ImportSource.objects.filter(project=project, format=format, source_id=key_of(start.whole_copy))
    return known.exists()


def take_over(project: Project, format: str, start: SessionStart) -> ImportSource | None:
    """The source of a partial copy of this session, made ready to be read whole; None where there is none.

    Its session stays. What was imported of it is left behind as a take.
    """
    if not start.partial_copy:
        return None
    sources = ImportSource.objects.select_for_update().filter(project=project, format=format)
    source = sources.filter(source_id=key_of(start.partial_copy), variant=0).first()
    if source is None:
        return None
    session = lock_session(project, source.session_id)
    draft = EntryDraft(
        Rewind(to_position=0, spans=(), reason="read whole from another transcript", actor="import")
    )
    rewind_locked(session, path_to(session, 0), draft, "import")
    source.source_id = key_of(start.session)
    source.settled, source.settled_digest, source.provisional_digests, source.shifts = 0, "", [], []
    source.settled_position = session.head
    source.session = session
    source.save()
    return source
