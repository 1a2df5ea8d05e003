"""Exports sessions. Files are streamed, so the memory used does not depend on a session's length."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from historyapp.core import entries as core
from historyapp.core.errors import Invalid, NotFound
from historyapp.core.exporters import EXPORTERS
from historyapp.core.exporters.base import Exporter, ExportNote, ExportSession, ExportSummary
from historyapp.core.exporters.long_steps import shortened
from historyapp.models import Session, StepNote, Summary
from historyapp.models.families import FamilyPart, family_parts
from historyapp.models.history import History
from historyapp.models.own_rows import live_rows, own_rows
from historyapp.models.projects import PURGED
from historyapp.services.annotations import dump_annotation
from historyapp.services.audit import add_audit_record
from historyapp.services.transactions import writing


@dataclass(frozen=True, slots=True)
class Export:
    """A file to download."""

    name: str
    media_type: str
    chunks: Iterator[str]


def export_session(
    session: Session, format: str, *, as_of: int | None = None, inputs: bool = True, actor: str = ""
) -> Export:
    """A session in one of the export formats.

    Playhead's own format includes takes, forks, and the entries that a fork shares with its parents. The
    other formats contain the live history.

    Args:
        inputs: False leaves out people's texts, also the title, as share links do.

    Raises:
        Invalid: for a format that does not exist, or that cannot leave out people's texts, or a position
            beyond the head.
    """
    exporter = exporter_named(format)
    if not inputs and not exporter.can_hide_inputs:
        able = " or ".join(name for name, other in EXPORTERS.items() if other.can_hide_inputs)
        raise Invalid(f"The format {format} cannot leave out inputs. Use {able}, or export with inputs.")
    history = History(session, as_of)
    with writing():
        add_audit_record(session.project_id, actor, "export", session.pk, {"format": format})
    name = _file_name(session, exporter) if inputs else f"session-{str(session.pk)[-6:]}{exporter.suffix}"
    if exporter.live_only:
        sized = ((row.core(), row.size) for row in live_rows(history.lineage))
        entries = shortened(sized) if exporter.whole_steps else (entry for entry, _ in sized)
        positions = (1, history.lineage.last)
        valid = Summary.objects.without_texts().live(session, history.lineage, positions, as_of)
        summaries = Summary.objects.read([summary.pk for summary in valid])
        live = _export_of(session, entries, summaries, session.head if as_of is None else as_of)
        live = live if inputs else replace(live, hides_inputs=True)
        return Export(name, exporter.media_type, exporter.write(live))
    parts = family_parts([session.pk], as_of)
    return Export(name, exporter.media_type, _write_parts(exporter, parts))


def export_together(sessions: Sequence[Session], format: str, *, actor: str = "") -> Export:
    """Sessions of one family as one file, which contains each entry once, in a format for whole families.

    The name of the file comes from the oldest session of the family.

    Raises:
        Invalid: for a format that does not exist.
        NotFound: when the sessions have been deleted.
    """
    exporter = exporter_named(format)
    parts = family_parts([session.pk for session in sessions])
    oldest = Session.objects.filter(pk=parts[0].session).first() if parts else None
    if oldest is None:
        raise NotFound("The session has been deleted.")
    with writing():
        for session in sessions:
            add_audit_record(session.project_id, actor, "export", session.pk, {"format": format})
    return Export(_file_name(oldest, exporter), exporter.media_type, _write_parts(exporter, parts))


def exporter_named(format: str) -> Exporter:
    """The exporter of a format. Raises ``Invalid`` when there is none."""
    exporter = EXPORTERS.get(format)
    if exporter is None:
        raise Invalid(f"There is no export format {format[:100]!r}. Use one of: {', '.join(EXPORTERS)}.")
    return exporter


def _file_name(session: Session, exporter: Exporter) -> str:
    """A name that every file system accepts. The end of the id distinguishes sessions with the same title."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", session.title).strip("-").lower()[:60]
    return f"{slug or 'session'}-{str(session.pk)[-6:]}{exporter.suffix}"


def _write_parts(exporter: Exporter, parts: Iterable[FamilyPart]) -> Iterator[str]:
    """The text of the sessions. Those that are deleted before they are written are left out."""
    # The rows are read one by one, because they can be long.
    rows = Session.objects.defer(None).exclude(project=PURGED)
    exported = (
        _own_entries(session, part.head) for part in parts for session in rows.filter(pk=part.session)
    )
    first = next(exported, None)
    if first is not None:
        yield from exporter.write(first, exported)


def _own_entries(session: Session, head: int) -> ExportSession:
    """The export of a session's own entries up to ``head``, rewinds included."""
    summaries = Summary.objects.filter(made_in=session, made_at__lte=head, last_position__lte=head)

    notes = StepNote.objects.filter(session=session, position__lte=head).order_by("position")
    entries = (row.core() for row in own_rows(session.pk, session.fork_position + 1, head))
    ids = summaries.order_by("id").values_list("pk", flat=True)
    return _export_of(session, entries, Summary.objects.read(ids), head, notes)


def _export_of(
    session: Session,
    entries: Iterable[core.Entry],
    summaries: Iterable[Summary],
    head: int,
    notes: Iterable[StepNote] | None = None,
) -> ExportSession:
    """The session as exporters take it. If ``notes`` is None, the session's note and score are left out
    too."""
    shared = min(session.fork_position, head)
    parent = (str(session.forked_from_id), shared) if session.forked_from_id else None
    return ExportSession(
        id=str(session.pk),
        entries=entries,
        head=head,
        title=session.title,
        agent=session.agent,
        model=session.model,
        tags=tuple(session.tags),
        settings=session.settings,
        metadata=session.metadata,
        annotation=dump_annotation(session) if notes is not None else {},
        forked_from=parent,
        spawned_by=str(session.spawned_by_id) if session.spawned_by_id else None,
        created_at=session.created_at,
        status=session.status,
        summaries=(
            ExportSummary(
                summary.first_position,
                summary.last_position,
                summary.text,
                summary.strategy,
                summary.model,
                tuple(summary.key_points),
                summary.level,
                summary.made_at,
                summary.created_at,
            )
            for summary in summaries
        ),
        notes=(
            ExportNote(note.position, note.text, note.actor, note.created_at, note.updated_at)
            for note in notes or ()
        ),
    )
