"""Carries out an action on many sessions. Each session is changed in its own transaction, so a worker may die
at any time.

The row of the action is locked while one of its sessions is changed. So one worker at a time works on it, and
no session is changed after the action was cancelled. The session is locked before it, because on PostgreSQL
the feed of changes of all projects waits for a transaction that has locked a row.
"""

import logging
from collections.abc import Callable
from uuid import UUID

from django.db import connection
from django.utils import timezone

from historyapp.core.errors import NotFound, PlayheadError
from historyapp.models import BulkAction, BulkItem, Session
from historyapp.services.compression.request import AcceptedRun, RunRequest
from historyapp.services.compression.start import start_run
from historyapp.services.faults import concerns_data
from historyapp.services.sessions import change_session
from historyapp.services.spending import Spender
from historyapp.services.transactions import writing
from historyapp.wire.problems import StorageFailed, TransactionTooLong

log = logging.getLogger(__name__)

Outcome = tuple[str, str]
"""The state of an item and the reason."""
_DONE: Outcome = (BulkItem.State.DONE, "")


class InUse(Exception):
    """Another worker is changing a session of the action."""


def process_bulk_action(
    action_id: UUID, should_stop: Callable[[], bool], wake: Callable[[UUID], None]
) -> bool:
    """Works on an action until no item is waiting or ``should_stop()``. Returns whether no item is waiting.

    Args:
        should_stop: called before each session.
        wake: wakes workers for a compression run that was started.

    Raises:
        InUse: on PostgreSQL. Waiting for the other worker would hold a connection.
    """
    while not should_stop():
        item = _carry_out_next(action_id)
        if item is None:
            return True
        if item.run_id is not None and item.state == BulkItem.State.DONE:
            wake(item.run_id)
    return False


def _carry_out_next(action_id: UUID) -> BulkItem | None:
    """Changes the next waiting session. Returns None if none is waiting, and ends the action."""
    item: BulkItem | None = None
    try:
        with writing():
            expected = _next_item(action_id)
            session = _lock_session(expected) if expected else None
            action = _lock(action_id)
            if action is None:
                return None
            item = _next_item(action_id)
            if item != expected:
                raise InUse  # another worker has changed the session meanwhile
            if item is None:
                action.state, action.finished_at = BulkAction.State.FINISHED, timezone.now()
                action.save(update_fields=("state", "finished_at"))
                return None
            item.state, item.reason = _carry_out(action, item, session)
            item.reason = item.reason[:1000]
            item.save(update_fields=("state", "reason", "run_id"))
    except TransactionTooLong as error:
        if item is None:
            raise
        log.error("The action on session %s took too long.", item.session_id)
        item.state = BulkItem.State.FAILED
        with writing():
            waiting = BulkItem.objects.filter(pk=item.pk, state=BulkItem.State.WAITING)
            waiting.update(state=item.state, reason=error.detail[:1000])
    return item


def _next_item(action_id: UUID) -> BulkItem | None:
    """The first waiting item of an action."""
    items = BulkItem.objects.filter(action=action_id, state=BulkItem.State.WAITING)
    return items.order_by("number").first()


def _lock_session(item: BulkItem) -> Session | None:
    """The session of an item, locked until the transaction ends. None if the project has no such session."""
    sessions = Session.objects.select_for_update(no_key=True)
    project = BulkAction.objects.filter(pk=item.action_id).values("project")
    return sessions.filter(pk=item.session_id, project__in=project).first()


def _lock(action_id: UUID) -> BulkAction | None:
    """The action, locked until the transaction ends. None if it has ended."""
    active = BulkAction.objects.active().filter(pk=action_id)
    locked = active.select_for_update(skip_locked=connection.features.has_select_for_update_skip_locked)
    action = locked.first()
    if action is None and active.exists():
        raise InUse
    return action


def _carry_out(action: BulkAction, item: BulkItem, session: Session | None) -> Outcome:
    try:
        if session is None:
            raise NotFound(f"There is no session {item.session_id}.")
        if action.kind == action.Kind.COMPRESS:
            return _compress(action, item)
        return _change(action, session)
    except PlayheadError as error:
        if isinstance(error, StorageFailed):
            raise
        return BulkItem.State.FAILED, error.detail
    except Exception as error:  # the other sessions must not wait for it
        if not concerns_data(error):
            raise
        log.exception("The action %s on session %s failed.", action.kind, item.session_id)
        return BulkItem.State.FAILED, "The server failed to do this. The reason is in the server's log."


def _change(action: BulkAction, session: Session) -> Outcome:
    """Changes the session's tags or status if necessary."""
    kinds, statuses = BulkAction.Kind, Session.Status
    has_tag, is_archived = action.tag in session.tags, session.status == statuses.ARCHIVED
    rules: dict[str, tuple[bool, str, dict[str, object]]] = {
        kinds.ADD_TAG: (has_tag, "The session already has the tag.", {"add_tags": [action.tag]}),
        kinds.REMOVE_TAG: (not has_tag, "The session does not have the tag.", {"remove_tags": [action.tag]}),
        kinds.ARCHIVE: (is_archived, "The session is already archived.", {"status": statuses.ARCHIVED}),
        kinds.UNARCHIVE: (not is_archived, "The session is not archived.", {"status": statuses.FINISHED}),
    }
    is_unchanged, reason, changes = rules[action.kind]
    if is_unchanged:
        return BulkItem.State.UNCHANGED, reason
    with writing():  # a savepoint: an error undoes only this session's change
        change_session(action.project, session.pk, changes, actor=action.actor)
    return _DONE


def _compress(action: BulkAction, item: BulkItem) -> Outcome:
    """Starts the run that was accepted with the request, or a part of it."""
    last_step = item.accepted_step
    if last_step is None:
        return BulkItem.State.FAILED, "An earlier version of the server started the action. Start it again."
    if not last_step:
        return BulkItem.State.UNCHANGED, (
            "There was nothing to compress when the action was requested: the newest steps stay in full."
        )
    accepted = AcceptedRun(item.accepted_strategy, item.accepted_model, last_step, item.accepted_cost)
    request = RunRequest(model=action.model or None)
    spender = Spender(action.api_key, is_member=action.is_member)
    with writing():
        started = start_run(
            action.project,
            item.session_id,
            request,
            actor=action.actor,
            spender=spender,
            accepted=accepted,
        )
    if started.joined:
        return BulkItem.State.UNCHANGED, "A compression of this session is already running."
    item.run_id = started.run.pk
    if not started.run.active:
        return BulkItem.State.UNCHANGED, started.run.note
    return _DONE
