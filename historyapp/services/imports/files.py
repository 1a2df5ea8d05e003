"""Importing transcripts: reading a file in its format and putting what it tells into sessions."""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from uuid_utils.compat import uuid7

from historyapp.core.errors import Conflict, Invalid, PlayheadError, UnreadableTranscript
from historyapp.core.importers import IMPORTERS, detect
from historyapp.core.importers.base import Append, Importer, RewindTo, SessionStart, Skipped, Source
from historyapp.core.text import clean
from historyapp.models import Project
from historyapp.services.audit import record
from historyapp.services.imports.parser import ParserProcess, TranscriptParser, open_parser
from historyapp.services.imports.reports import FileReport, SessionReport
from historyapp.services.imports.sessions import ImportJob, may_be_empty
from historyapp.services.imports.writer import Counts, DifferentBeginning
from historyapp.services.transactions import writing


def import_file(
    project: Project,
    source: Source,
    *,
    format: str | None = None,
    actor: str = "",
    seen: Callable[[int], None] | None = None,
    beside: ParserProcess | None = None,
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
        reader = partial(open_parser, importer, source, beside=beside)
        _read(reader, partial(ImportJob, project, report), seen)
    except PlayheadError as error:
        report.error, report.later = error.detail, isinstance(error, Conflict)
        report.unknown = not report.format
    except OSError as error:
        report.error = f"The file cannot be read: {error.strerror or error}."
    _name_other_format(report, source, named)
    if report.is_news:
        detail = {"file": clean(report.name), "format": report.format, "entries": report.total("added")}
        with writing():
            record(project.pk, actor, "import", report.sessions[0].id, detail)
    return report


def inspect_file(
    source: Source, *, format: str | None = None, seen: Callable[[int], None] | None = None
) -> FileReport:
    """What :func:`import_file` would read of the file. Nothing is stored, so nothing counts as added."""
    named, report, looks = _named(format), FileReport(source.name), dict[str, SessionReport]()
    kept = set[str]()
    try:
        importer = named or detect(source)
        report.format = importer.name
        for operation in importer.read(source):
            match operation:
                case Skipped():
                    report.skip(operation)
                case SessionStart(session=id, title=title) as start:
                    looks.setdefault(id, SessionReport(uuid7(), id, title, True, Counts()))
                    kept |= {id} if may_be_empty(start, importer.name) else set()
                case Append() | RewindTo():
                    looks[operation.session].counts.see(operation)
            if seen is not None:
                seen(source.stream.tell())
    except PlayheadError as error:
        report.error, report.unknown = error.detail, not report.format
    except OSError as error:
        report.error = f"The file cannot be read: {error.strerror or error}."
    for look in looks.values():
        look.counts.close()
    report.sessions = [look for id, look in looks.items() if look.counts.entries or id in kept]
    _name_other_format(report, source, named)
    return report


def _name_other_format(report: FileReport, source: Source, named: Importer | None) -> None:
    """Says so where a file has nothing of the format that was asked for and looks like another one."""
    if named is None or report.sessions or report.error:
        return
    try:
        other = detect(source)
    except (UnreadableTranscript, OSError):
        return
    if other is not named:
        report.error = f"Nothing in it can be read as {named.title}. It looks like {other.title}."


def _named(format: str | None) -> Importer | None:
    if format is not None and format not in IMPORTERS:
        raise Invalid(f"There is no format {format!r}. Use one of: {', '.join(IMPORTERS)}.")
    return IMPORTERS[format] if format else None


def _read(
    new_reader: Callable[[], AbstractContextManager[TranscriptParser]],
    new_job: Callable[[Counter[str]], ImportJob],
    seen: Callable[[int], None] | None,
) -> None:
    """Reads the file; again from its start when one of its sessions turns out to have begun otherwise."""
    variants: Counter[str] = Counter()
    while True:
        job = new_job(variants)
        try:
            broken_off = _read_once(job, new_reader, seen)
        except DifferentBeginning as other:
            variants[str(other)] += 1
            job.report.skipped, job.report.skipped_count, job.report.damaged_count = [], 0, 0
            continue
        finally:
            job.report.sessions = job.sessions()
        if broken_off is not None:
            raise broken_off
        return


def _read_once(
    job: ImportJob,
    new_reader: Callable[[], AbstractContextManager[TranscriptParser]],
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
