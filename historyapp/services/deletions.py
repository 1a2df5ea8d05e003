"""Deletes the rows of one session in short transactions, so that other writers wait for none of them long.

:func:`hide` moves the session to a project without members and empties its row. From then on no request
finds the session, and workers see a session without entries. :func:`delete_hidden` deletes its rows in parts,
its own row last. If the process is killed between two parts, the next purge or worker continues.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import DatabaseError
from django.db.models import F, Model, QuerySet

from historyapp.models import (
    AuditRecord,
    CompressionItem,
    CompressionRun,
    Entry,
    Episode,
    FiguresCheckpoint,
    ImportSource,
    NameIndex,
    NamePage,
    NameRun,
    Project,
    RetentionPass,
    SearchStep,
    Session,
    ShareLink,
    Snapshot,
    StepNames,
    StepNote,
    Summary,
    TextBlock,
    WebhookDelivery,
)
from historyapp.models.audit import DELETION
from historyapp.models.changes import ChangeKind
from historyapp.models.database_clock import database_now
from historyapp.models.projects import PURGED
from historyapp.models.search_steps import ReadingStopped, documents
from historyapp.models.search_text_index import remove_words, stored_tokens, words_of_session
from historyapp.models.sessions import empty_tail
from historyapp.models.vendor import on_sqlite
from historyapp.services.audit import add_audit_record
from historyapp.services.changes import record_change
from historyapp.services.faults import concerns_data
from historyapp.services.idempotency import PurgedResponses, empty_responses
from historyapp.services.search.deleted_words import record_deleted_words
from historyapp.services.short_transactions import delete_in_parts, short_transaction
from historyapp.services.transactions import lock_together, writing
from historyapp.services.wal import empty_wal

log = logging.getLogger(__name__)

_RESPONSES_AT_ONCE, _RECORDS_AT_ONCE = 10, 500
"""The maximum numbers of stored responses, of up to a MB each, and of audit records in one transaction."""
_SUBAGENTS_AT_ONCE, _RUNS_AT_ONCE = 500, 500
_MAX_CHARACTERS = 50_000
"""On SQLite, one transaction removes about this many characters of tokens from the text index."""
_MAX_STEPS = 200
_ROWS_AT_ONCE = 50
"""The maximum number of rows whose tokens are read from the text index together."""
_EMPTY = {
    "title": "", "agent": "", "model": "", "tags_text": "\n", "search_text": "", "metadata": {},
    "folder": "", "repository": "", "head": 0, "closed_spans": [], "tail_start": 1, "forked_from": None,
    "fork_position": 0, "fork_spans": [], "spawned_by": None, "spawned_position": None, "steps": 0,
    "errors": 0, "tokens": 0, "cost": 0, "likely_failures": 0, "duration": 0, "shown_tokens": 0, "money": 0,
    "cost_is_minimum": None, "strip": "", "is_listed": True, "compress_at": None, "compress_at_tokens": None,
    "compression_due": False,
}  # fmt: skip
"""The columns of a hidden session. ``last_entry_at`` is the time when its deletion last showed progress."""
HEARTBEAT_SECONDS = 10.0
"""Seconds between two writes by which a process shows that it is still deleting a session."""
INTERRUPTED_AFTER = timedelta(seconds=45)
"""A worker completes a deletion that has shown no progress for this long. Two processes may delete the same
session: that takes longer, but does no harm."""


def hide(session: Session, actor: str) -> None:
    """Makes a session unreadable and records its deletion, within the caller's transaction, which has locked
    it. This is final.
    """
    Project.objects.get_or_create(pk=PURGED)
    detail = {"entries": own_entries(session), "steps": session.steps}
    add_audit_record(session.project_id, actor, DELETION, session.pk, detail)
    record_change(session, ChangeKind.SESSION_DELETED)
    ShareLink.objects.filter(session=session).delete()
    ImportSource.objects.filter(session=session).delete()
    runs = CompressionRun.objects.filter(session=session)
    active = list(runs.active().values_list("pk", flat=True))
    newest = list(runs.order_by("-pk").values_list("pk", flat=True)[:_RUNS_AT_ONCE])
    runs.filter(pk__in=active).update(state=CompressionRun.State.CANCELLED)
    runs.filter(pk__in={*active, *newest}).update(project=PURGED)
    Session.objects.filter(pk=session.pk).update(
        **_EMPTY,
        project=PURGED,
        settings={},
        tail=empty_tail(),
        last_entry_at=database_now(),
        revision=F("revision") + 1,
    )


def own_entries(session: Session) -> int:
    """The number of a session's own entries."""
    return session.head - session.fork_position


def hidden_sessions(older_than: timedelta | None = None) -> list[UUID]:
    """The sessions whose deletion is not complete.

    Args:
        older_than: only those whose deletion has shown no progress for so long. None: all.
    """
    hidden = Session.objects.filter(project=PURGED)
    if older_than is not None:
        hidden = hidden.filter(last_entry_at__lte=database_now() - older_than)
    return list(hidden.order_by("pk").values_list("pk", flat=True))


def delete_hidden_sessions(older_than: timedelta | None = None) -> int:
    """Completes the deletions of processes that were killed. Returns how many.

    A session that cannot be deleted is logged and does not stop the others.
    """
    deleted = 0
    for id in hidden_sessions(older_than):
        try:
            delete_hidden(id)
            deleted += 1
        except Exception as error:
            if not concerns_data(error):
                raise
            log.exception("The deletion of session %s cannot be completed.", id)
    return deleted


def delete_hidden(session: UUID, responses: PurgedResponses | None = None) -> None:
    """Deletes the rows of a hidden session. Must not be called within a transaction.

    Args:
        responses: of the sessions that are deleted together.
    """
    heartbeat = _Heartbeat(session)
    for step in (_hide_runs, _detach_subagents):
        heartbeat.beat()
        step(session)
    heartbeat.beat()
    _empty_texts(session, responses)
    if on_sqlite():  # before the entries, from which the tokens are computed
        delete_search_steps(session, heartbeat.beat)
    for rows, column in _rows_of(session):
        delete_in_parts(rows, column, _delete, heartbeat.beat)
    with writing():
        # In every writer's order: the session, its runs, and then rows that refer to a run.
        if not _lock(Session.objects.filter(pk=session, project=PURGED)):
            return  # another process was faster
        _lock(CompressionRun.objects.filter(session=session))
        _lock(NameIndex.objects.filter(session=session))
        WebhookDelivery.objects.filter(session=session).delete()
        retention_pass = RetentionPass.objects.create()
        Session.objects.get(pk=session).delete()
        retention_pass.delete()
    empty_wal()  # otherwise the worker that removes the words does it


class _Heartbeat:
    """Shows that this process is deleting a hidden session."""

    def __init__(self, session: UUID) -> None:
        self._session, self._next = session, 0.0

    def beat(self) -> None:
        """Writes the time, unless it did within :data:`HEARTBEAT_SECONDS`."""
        if time.monotonic() < self._next:
            return
        with writing():
            Session.objects.filter(pk=self._session, project=PURGED).update(last_entry_at=database_now())
        self._next = time.monotonic() + HEARTBEAT_SECONDS


def _hide_runs(session: UUID) -> None:
    """Moves the runs that :func:`hide` has left in the project. A session may have any number."""
    runs = CompressionRun.objects.filter(session=session).exclude(project=PURGED).order_by("pk")
    while ids := list(runs.values_list("pk", flat=True)[:_RUNS_AT_ONCE]):
        with short_transaction():
            _lock(runs.filter(pk__in=ids))
            runs.filter(pk__in=ids).update(project=PURGED)


def _detach_subagents(session: UUID) -> None:
    """Removes the session from its sub-agents. There may be many."""
    subagents = Session.objects.filter(spawned_by=session).order_by("pk")
    while ids := list(subagents.values_list("pk", flat=True)[:_SUBAGENTS_AT_ONCE]):
        with short_transaction():
            lock_together(subagents.filter(pk__in=ids))
            rows = Session.objects.filter(pk__in=ids)
            rows.update(spawned_by=None, spawned_position=None, revision=F("revision") + 1)


def _empty_texts(session: UUID, responses: PurgedResponses | None) -> None:
    """Empties the stored responses about a session, and the details of its audit records."""
    record = AuditRecord.objects.filter(session=session, action=DELETION).order_by("-created_at").first()
    if record is None:
        return
    keys = (responses or PurgedResponses(record.project_id, [session])).take_keys(session)
    for start in range(0, len(keys), _RESPONSES_AT_ONCE):
        with short_transaction():
            empty_responses(keys[start : start + _RESPONSES_AT_ONCE])
    audited = AuditRecord.objects.filter(project=record.project_id, session=session).exclude(action=DELETION)
    ids = list(audited.values_list("pk", flat=True))
    for start in range(0, len(ids), _RECORDS_AT_ONCE):
        with short_transaction():
            AuditRecord.objects.filter(pk__in=ids[start : start + _RECORDS_AT_ONCE]).update(detail={})


def _lock(rows: "QuerySet[Any]") -> list[Any]:
    return list(rows.select_for_update().order_by("pk").values_list("pk", flat=True))


def _rows_of(session: UUID) -> Iterator[tuple["QuerySet[Model]", str]]:
    """The rows of a session that can be many, with the column that gives their order."""
    own = {"session_id": session}
    yield SearchStep.objects.filter(**own), "id"
    yield TextBlock.objects.filter(**own), "first_position"
    yield WebhookDelivery.objects.filter(session=session), "id"
    runs = CompressionRun.objects.filter(**own)
    for run in runs.filter(total__gt=0).values_list("pk", flat=True):
        yield CompressionItem.objects.filter(run=run), "id"
    for index in NameIndex.objects.filter(**own).values_list("pk", flat=True):
        for name_run in NameRun.objects.filter(index=index).values_list("pk", flat=True):
            yield NamePage.objects.filter(run=name_run), "first"
        yield StepNames.objects.filter(index=index), "position"
    yield Summary.objects.filter(made_in=session), "id"
    yield Summary.objects.filter(**own), "id"
    yield runs, "id"
    yield Snapshot.objects.filter(**own), "id"
    yield StepNote.objects.filter(**own), "position"
    yield FiguresCheckpoint.objects.filter(**own), "position"
    yield Episode.objects.filter(**own), "anchor"
    yield Entry.objects.filter(**own), "position"


def _delete(rows: "QuerySet[Model]") -> None:
    if rows.model is Entry:
        retention_pass = RetentionPass.objects.create()
        rows._raw_delete(rows.db)
        retention_pass.delete()
    elif rows.model is Summary:
        rows.only("pk").delete()  # Django reads the rows, because items refer to them
    else:
        rows.delete()


def delete_search_steps(session: UUID, before_each: Callable[[], object] = lambda: None) -> None:
    """Deletes a session's rows and their tokens from SQLite's text index, which needs the old tokens.

    They are computed from the entries before each transaction. Tokens that cannot be computed, because
    another version stored them or because their row was replaced, are read from the text index.

    Args:
        before_each: called before each transaction.
    """
    _delete_computed(session, before_each)
    left = sorted(words_of_session(session))
    for start in range(0, len(left), _ROWS_AT_ONCE):
        for id, tokens in stored_tokens(left[start : start + _ROWS_AT_ONCE]).items():
            before_each()
            with short_transaction():
                if id in words_of_session(session):
                    SearchStep.objects.filter(pk=id).delete()
                    _remove_words(id, tokens)
    with short_transaction():
        record_deleted_words()


def _delete_computed(session: UUID, before_each: Callable[[], object]) -> None:
    """Deletes the rows whose tokens can be computed from the entries."""
    stored = SearchStep.objects.filter(session=session)
    newest = stored.order_by("-first_position").first()
    if newest is None:
        return
    columns = stored.values_list("first_position", "id", "checksum")
    rows = {first: (id, checksum) for first, id, checksum in columns.iterator()}
    words, size = list[tuple[int, str]](), 0
    with suppress(ReadingStopped):  # another process has deleted the rows, and deletes the entries
        for document in documents(newest.project_id, session, min(rows), newest.last_position):
            id, checksum = rows.get(document.first, (0, 0))
            if not id or checksum != document.checksum:
                continue
            words.append((id, document.tokens))
            size += len(document.tokens)
            if size >= _MAX_CHARACTERS or len(words) >= _MAX_STEPS:
                before_each()
                _remove(words)
                words, size = [], 0
    _remove(words)


def _remove(words: Sequence[tuple[int, str]]) -> None:
    """Each row is deleted with its tokens: FTS5 must not remove them twice."""
    with short_transaction():
        for id, tokens in words:
            if SearchStep.objects.filter(pk=id).delete()[0]:
                _remove_words(id, tokens)


def _remove_words(id: int, tokens: str) -> None:
    with suppress(DatabaseError):  # a damaged text index must not keep the log
        remove_words([(id, tokens)])
