"""Exports sessions. Files are streamed, so the memory used does not depend on a session's length."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from historyapp.core import entries as core
from historyapp.core.errors import Invalid
from historyapp.core.exporters import EXPORTERS
from historyapp.core.exporters.base import ExportNote, ExportSession, ExportSummary
from historyapp.core.exporters.long_steps import shortened
from historyapp.models import Session, StepNote, Summary
from historyapp.models.history import History
from historyapp.models.own_rows import live_rows, own_rows
from historyapp.services.annotations import dump_annotation
from historyapp.services.audit import add_audit_record
from historyapp.services.transactions import writing


@dataclass(frozen=True, slots=True)
class Export:
    """A file to download."""

    name: str
    media_type: str
    chunks: Iterator[str]


def export_session(session: Session, format: str, *, as_of: int | None = None, actor: str = "") -> Export:
    """A session in one of the export formats.

    Playhead's own format includes takes, forks, and the entries that a fork shares with its parents. The
    other formats contain the live history.

    Raises:
        Invalid: for a format that does not exist, or a position beyond the head.
    """
    exporter = EXPORTERS.get(format)
    if exporter is None:
        raise Invalid(f"There is no export format {format!r}. Use one of: {', '.join(EXPORTERS)}.")
    history = History(session, as_of)
    with writing():
        add_audit_record(session.project_id, actor, "export", session.pk, {"format": format})
    # A name that every file system accepts. The end of the id distinguishes sessions with the same title.
    slug = re.sub(r"[^A-Za-z0-9]+", "-", session.title).strip("-").lower()[:60]
    name = f"{slug or 'session'}-{str(session.pk)[-6:]}{exporter.suffix}"
    if exporter.live_only:
        sized = ((row.core(), row.size) for row in live_rows(history.lineage))
        entries = shortened(sized) if exporter.whole_steps else (entry for entry, _ in sized)
        summaries = Summary.objects.live(session, history.lineage, (1, history.lineage.last), as_of)
        live = _export_of(session, entries, summaries, session.head if as_of is None else as_of)
        return Export(name, exporter.media_type, exporter.write(live))
    first, *others = _family(session, as_of)
    return Export(name, exporter.media_type, exporter.write(first, others))


def _family(session: Session, as_of: int | None) -> Iterator[ExportSession]:
    """The ancestors' shared entries, oldest first; the session; then its forks, each after its parent."""
    ancestors = [(session, session.head if as_of is None else as_of)]
    while (parent := ancestors[-1][0].forked_from) is not None:
        child, head = ancestors[-1]
        ancestors.append((parent, min(child.fork_position, head)))
    for ancestor, head in reversed(ancestors):
        yield _own_entries(ancestor, head)
    generation = [session.pk]
    while as_of is None and generation:
        forks = list(Session.objects.filter(forked_from__in=generation).order_by("created_at", "id"))
        yield from (_own_entries(fork, fork.head) for fork in forks)
        generation = [fork.pk for fork in forks]


def _own_entries(session: Session, head: int) -> ExportSession:
    """The export of a session's own entries up to ``head``, rewinds included."""
    summaries = Summary.objects.filter(made_in=session, made_at__lte=head, last_position__lte=head)

    notes = StepNote.objects.filter(session=session, position__lte=head).order_by("position")
    entries = (row.core() for row in own_rows(session.pk, session.fork_position + 1, head))
    return _export_of(session, entries, summaries.order_by("id"), head, notes)


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
