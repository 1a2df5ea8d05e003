"""Imports a transcript file, or only reports its content."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from django.core.exceptions import ObjectDoesNotExist
from uuid_utils.compat import uuid7

from historyapp.core.errors import Conflict, Invalid, NotFound, PlayheadError, UnreadableTranscript
from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import Append, Importer, RewindTo, SessionStart, Skipped, Source
from historyapp.core.text import clean
from historyapp.models import Project
from historyapp.services.append import hold_sessions
from historyapp.services.audit import add_audit_record
from historyapp.services.imports.headers import limited_start
from historyapp.services.imports.limits import check_number_of_sessions, report_left_out
from historyapp.services.imports.parser import ParserProcess, open_parser
from historyapp.services.imports.reports import Counts, FileReport, SessionReport
from historyapp.services.imports.sessions import MAX_VARIANTS, ImportJob, may_be_empty
from historyapp.services.imports.time_limit import TookTooLong, detect_in_time, with_time_limit
from historyapp.services.imports.writer import DifferentBeginning
from historyapp.services.transactions import writing
from historyapp.wire.problems import DiskLow, TransactionTooLong

log = logging.getLogger(__name__)

_DELETED = "A session of the file was deleted during the import. Import the file again to add it."
OnProgress = Callable[[int], None]
"""Called after each operation with the number of bytes read so far."""


def import_file(
    project: Project,
    source: Source,
    *,
    format: str | None = None,
    actor: str = "",
    on_progress: OnProgress | None = None,
    process: ParserProcess | None = None,
) -> FileReport:
    """Imports one transcript. Importing it again adds nothing; if the file has grown, only new entries are
    added.

    Args:
        format: the name of an importer, or None to detect it.
        process: parses the file. It is faster for large files, and the kernel can kill it.

    Returns:
        The report. If the file cannot be read, ``error`` of the report is set and nothing is raised.

    Raises:
        Invalid: for a format that does not exist.
    """
    chosen, report = _importer_named(format), FileReport(source.name)
    with _reporting_errors(report):
        importer = chosen or (process.detect if process else detect_in_time)(source)
        report.format = report.lines.format = importer.name
        _import(project, importer, source, report, on_progress=on_progress, process=process)
    _suggest_format(report, source, chosen, process)
    if report.changed:
        detail = {"file": clean(report.name), "format": report.format, "entries": report.total("added")}
        first = report.sessions[0].id
        with writing():
            exists = hold_sessions(project.pk, [first])
            add_audit_record(project.pk, actor, "import", first, detail if exists else {})
    return report


def check_imported(project: Project, reports: Iterable[FileReport]) -> None:
    """Checks that the sessions of the reports exist, and keeps them until the caller's transaction ends.

    Raises:
        Conflict: when one of them was deleted after its import.
    """
    ids = {session.id for report in reports for session in report.sessions}
    with writing():
        if hold_sessions(project.pk, ids) != ids:
            raise Conflict(_DELETED)


def inspect_file(
    source: Source, *, format: str | None = None, on_progress: OnProgress | None = None
) -> FileReport:
    """The report of :func:`import_file`, without storing anything or counting entries as added."""
    chosen, report, sessions = _importer_named(format), FileReport(source.name), dict[str, SessionReport]()
    stored_if_empty = set[str]()
    with _reporting_errors(report):
        importer = chosen or detect_in_time(source)
        report.format = report.lines.format = importer.name
        for operation in with_time_limit(importer.read(source), source):
            report.lines.add(operation)
            match operation:
                case Skipped():
                    report.skip(operation)
                case SessionStart(session=id, title=title) as start:
                    if id not in sessions:
                        check_number_of_sessions(len(sessions) + 1)
                        sessions[id] = SessionReport(uuid7(), id, title, True, Counts())
                        report_left_out(report, limited_start(start))
                    stored_if_empty |= {id} if may_be_empty(start, importer.name) else set()
                case Append() | RewindTo():
                    sessions[operation.session].counts.add(operation)
            if on_progress is not None:
                on_progress(source.stream.tell())
    for session in sessions.values():
        session.counts.end_step()
    report.sessions = [
        session for id, session in sessions.items() if session.counts.entries or id in stored_if_empty
    ]
    _suggest_format(report, source, chosen, None)
    return report


def _importer_named(format: str | None) -> Importer | None:
    if format is not None and format not in IMPORTERS:
        raise Invalid(f"There is no format {format!r}. Use one of: {', '.join(IMPORTERS)}.")
    return IMPORTERS[format] if format else None


@contextmanager
def _reporting_errors(report: FileReport) -> Iterator[None]:
    try:
        yield
    except (NotFound, ObjectDoesNotExist):  # a purge has deleted the session or its source
        report.error, report.retryable = _DELETED, True
    except PlayheadError as error:
        report.error = error.detail
        report.retryable = isinstance(error, (Conflict, DiskLow, TransactionTooLong))
        report.unknown_format = not report.format
        if isinstance(error, TookTooLong):
            log.warning("Import of %s: %s", clean(report.name), error.detail)
    except OSError as error:
        report.error = f"The file cannot be read: {error.strerror or error}."


def _import(
    project: Project,
    importer: Importer,
    source: Source,
    report: FileReport,
    *,
    on_progress: OnProgress | None,
    process: ParserProcess | None,
) -> None:
    """Reads the file, and again if one of its sessions begins differently from the imported session."""
    variants: Counter[str] = Counter()
    while True:
        job = ImportJob(project, report, variants)
        try:
            failure = _add_operations(job, importer, source, on_progress, process)
            job.finish()
        except DifferentBeginning as other:
            variants |= _next_variants(str(other), job, importer, source, process)
            if max(variants.values()) > MAX_VARIANTS:
                raise Invalid(
                    f"More than {MAX_VARIANTS} imported sessions have the id of this session and begin "
                    "differently. Give the session another id."
                ) from None
            report.restart()
            continue
        finally:
            report.sessions = job.sessions()
        if failure is not None:
            raise failure
        return


def _add_operations(
    job: ImportJob,
    importer: Importer,
    source: Source,
    on_progress: OnProgress | None,
    process: ParserProcess | None,
) -> UnreadableTranscript | OSError | None:
    """Adds the operations of the file. Returns the error that ended it early: earlier entries are kept."""
    try:
        with open_parser(importer, source, process=process) as parser:
            for parsed in parser:
                job.add(parsed)
                if on_progress is not None:
                    on_progress(parser.position)
    except (UnreadableTranscript, OSError) as error:
        return error
    return None


def _next_variants(
    session_id: str, job: ImportJob, importer: Importer, source: Source, process: ParserProcess | None
) -> Counter[str]:
    """The variants of the sessions of the file, at least the next one of a session that begins differently.
    One pass compares all of them, because reading the file takes long."""
    other_job = ImportJob(job.project, job.report, job.variants)
    following = Counter({session_id: job.variants[session_id] + 1})
    with suppress(UnreadableTranscript, OSError), open_parser(importer, source, process=process) as parser:
        return following | Counter(other_job.compare(parser))
    return following


def _suggest_format(
    report: FileReport, source: Source, chosen: Importer | None, process: ParserProcess | None
) -> None:
    """Sets the error if a file has no session in the requested format and looks like another format."""
    if chosen is None or report.sessions or report.error:
        return
    try:
        other = (process.detect if process else detect_in_time)(source)
    except (UnreadableTranscript, OSError):
        return
    if other is not chosen:
        report.error = f"Nothing in the file can be read as {chosen.title}. It looks like {other.title}."
