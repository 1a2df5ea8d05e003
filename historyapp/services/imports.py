"""Importing transcripts: reading a file in its format and putting what it tells into sessions."""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from django.db import IntegrityError
from django.db.models import QuerySet
from pydantic import ValidationError
from uuid_utils.compat import uuid7

from historyapp.core.errors import Conflict, Invalid, PlayheadError, UnreadableTranscript
from historyapp.core.importers import IMPORTERS, detect
from historyapp.core.importers.base import (
    Append,
    Importer,
    RewindTo,
    SessionStart,
    Skipped,
    Source,
    Summarised,
)
from historyapp.core.settings import load_settings
from historyapp.core.text import clean, preview
from historyapp.models import ImportSource, Project, Session
from historyapp.services.audit import record
from historyapp.services.compression.marks import arm
from historyapp.services.import_copies import is_known_whole, key_of, take_over
from historyapp.services.import_writer import Counts, OtherBeginning, SessionWriter, shifted
from historyapp.services.reading import Read, Reader, ReadingProcess, open_reader
from historyapp.services.rewinds import begin_fork, path_to
from historyapp.services.sessions import change_session, dump_settings
from historyapp.services.summaries import touch
from historyapp.services.transactions import writing

MOST_SKIPPED = 1000
"""Skipped records that a report names; the rest are only counted."""


@dataclass(frozen=True, slots=True)
class ImportedSession:
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
    sessions: list[ImportedSession] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    """The first 1,000."""
    skipped_count: int = 0
    damaged_count: int = 0
    error: str = ""
    """Why reading ended before the end, or why nothing could be read at all."""
    later: bool = False
    """Whether it ended because of the session's state, so that the same file may be imported later."""

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


def import_file(
    project: Project,
    source: Source,
    *,
    format: str | None = None,
    actor: str = "",
    seen: Callable[[int], None] | None = None,
    beside: ReadingProcess | None = None,
) -> FileReport:
    """Imports one transcript. Doing so again adds nothing; a grown file adds only what is new.

    Args:
        format: the name of an importer; null to detect it.
        seen: told after each operation how many bytes of the file have been read, for a progress bar.
        beside: a process to read it in, which is faster for large files; not for use inside a web server.

    Returns:
        The report. A file that nothing can be read of has ``error`` set; this does not raise.

    Raises:
        Invalid: for a format that does not exist.
    """
    named, report = _named(format), FileReport(source.name)
    try:
        importer = named or detect(source)
        report.format = importer.name
        reader = partial(open_reader, importer, source, beside=beside)
        _read(reader, partial(_Job, project, report), seen)
    except PlayheadError as error:
        report.error, report.later = error.detail, isinstance(error, Conflict)
    except OSError as error:
        report.error = f"The file cannot be read: {error.strerror or error}."
    if report.is_news:
        detail = {"file": clean(report.name), "format": report.format, "entries": report.total("added")}
        with writing():
            record(project.pk, actor, "import", report.sessions[0].id, detail)
    return report


def inspect_file(
    source: Source, *, format: str | None = None, seen: Callable[[int], None] | None = None
) -> FileReport:
    """What :func:`import_file` would read of the file. Nothing is stored, so nothing counts as added."""
    named, report, looks = _named(format), FileReport(source.name), dict[str, ImportedSession]()
    try:
        importer = named or detect(source)
        report.format = importer.name
        for operation in importer.read(source):
            match operation:
                case Skipped():
                    report.skip(operation)
                case SessionStart(session=id, title=title):
                    looks.setdefault(id, ImportedSession(uuid7(), id, title, True, Counts()))
                case Append() | RewindTo():
                    looks[operation.session].counts.see(operation)
            if seen is not None:
                seen(source.stream.tell())
    except PlayheadError as error:
        report.error = error.detail
    except OSError as error:
        report.error = f"The file cannot be read: {error.strerror or error}."
    for look in looks.values():
        look.counts.close()
    report.sessions = list(looks.values())
    return report


def _named(format: str | None) -> Importer | None:
    if format is not None and format not in IMPORTERS:
        raise Invalid(f"There is no format {format!r}. Use one of: {', '.join(IMPORTERS)}.")
    return IMPORTERS[format] if format else None


def _read(
    new_reader: Callable[[], AbstractContextManager[Reader]],
    new_job: "Callable[[Counter[str]], _Job]",
    seen: Callable[[int], None] | None,
) -> None:
    """Reads the file; again from its start when one of its sessions turns out to have begun otherwise."""
    variants: Counter[str] = Counter()
    while True:
        job = new_job(variants)
        try:
            broken_off = _read_once(job, new_reader, seen)
        except OtherBeginning as other:
            variants[str(other)] += 1
            job.report.skipped, job.report.skipped_count, job.report.damaged_count = [], 0, 0
            continue
        finally:
            job.report.sessions = job.sessions()
        if broken_off is not None:
            raise broken_off
        return


def _read_once(
    job: "_Job",
    new_reader: Callable[[], AbstractContextManager[Reader]],
    seen: Callable[[int], None] | None,
) -> UnreadableTranscript | OSError | None:
    """Why the file cannot be read to its end, if it cannot. What comes before that is kept."""
    broken_off: UnreadableTranscript | OSError | None = None
    try:
        with new_reader() as reader:
            for read in reader:
                job.take(read)
                if seen is not None:
                    seen(reader.position)
    except (UnreadableTranscript, OSError) as error:
        broken_off = error
    job.finish()
    return broken_off


class _Job:
    """The sessions of one file while it is read."""

    def __init__(self, project: Project, report: FileReport, variants: Counter[str]) -> None:
        self.project, self.format, self.report, self.variants = project, report.format, report, variants
        self.writers: dict[str, SessionWriter] = {}
        self.passed_over: set[str] = set()
        """Sessions of which another transcript has told more."""
        self.new: set[str] = set()

    def take(self, read: Read) -> None:
        match read.operation:
            case Append() | RewindTo() | Summarised() as operation:
                if operation.session not in self.passed_over:
                    self.writers[operation.session].take(read)
            case Skipped() as skipped:
                self.report.skip(skipped)
            case SessionStart() as start:
                self._start(start)

    def finish(self) -> None:
        for source_id, writer in self.writers.items():
            writer.finish()
            is_news = source_id in self.new or writer.counts.added
            if is_news and writer.start.status == Session.Status.ARCHIVED:
                archived = {"status": Session.Status.ARCHIVED}
                change_session(self.project, writer.source.session_id, archived, actor="import")

    def sessions(self) -> list[ImportedSession]:
        return [
            ImportedSession(
                writer.source.session_id, source_id, writer.start.title, source_id in self.new, writer.counts
            )
            for source_id, writer in self.writers.items()
        ]

    def _start(self, start: SessionStart) -> None:
        if start.session in self.writers or start.session in self.passed_over:
            return
        if is_known_whole(self.project, self.format, start):
            self.passed_over.add(start.session)
            return
        try:
            with writing():
                source = self._source(start)
        except IntegrityError as error:
            raise Conflict(
                f"Another import of {start.session} is under way. Import it again later."
            ) from error
        self.writers[start.session] = SessionWriter(start, source)

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
        parent = self.writers.get(start.forked_from[0]) if start.forked_from else None
        if parent is not None and start.forked_from is not None:
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
