"""Creates sessions and changes their names, tags, settings and status."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import IntegrityError
from uuid_utils.compat import uuid7

from historyapp.core.errors import Conflict
from historyapp.core.formats import format_named
from historyapp.core.policies import policy_named
from historyapp.core.settings import SessionSettings, load_settings
from historyapp.core.strategies import strategy_named
from historyapp.models import Project, Session
from historyapp.models.changes import ChangeKind
from historyapp.services.annotations import ANNOTATION_FIELDS, annotate, check_expected, with_tags
from historyapp.services.append import lock_session
from historyapp.services.audit import add_audit_record, was_deleted
from historyapp.services.changes import record_change
from historyapp.services.compression.start import THRESHOLDS, set_thresholds
from historyapp.services.list_columns import LIST_COLUMNS, PLACE_COLUMNS, set_list_columns
from historyapp.services.spending import OPERATOR, Spender, check_summary_model
from historyapp.services.transactions import writing

_COLUMNS = (
    "title", "agent", "model", "status", "tags_text", "search_text", "settings", "revision", *THRESHOLDS,
    *LIST_COLUMNS,
)  # fmt: skip
"""The columns that a change writes."""
_METADATA_COLUMNS = ("metadata", *PLACE_COLUMNS)
"""The columns that a change of the metadata writes."""


class StartingToolCall(NamedTuple):
    """The tool call that starts a sub-agent."""

    session: Session
    position: int | None = None
    """The position of the output whose tool call starts it; None if unknown."""


def create_session(
    project: Project,
    *,
    id: UUID | None = None,
    names: Mapping[str, str] | None = None,
    tags: Sequence[str] = (),
    settings: SessionSettings | None = None,
    metadata: Mapping[str, Any] | None = None,
    starter: StartingToolCall | None = None,
    spender: Spender = OPERATOR,
) -> Session:
    """Creates an empty session.

    Args:
        names: any of ``title``, ``agent``, ``model``.
        starter: for a sub-agent: the tool call that starts it.

    Raises:
        Conflict: when the given id is or was that of another session.
        Invalid: for settings that name a policy, format or strategy that does not exist.
        SpendForbidden: as :func:`check_summary_model`, unless the summary model is the default.
    """
    if settings is not None:
        check_names(settings.model_dump())
        if settings.llm_name != SessionSettings().llm_name:
            check_summary_model(project, settings.llm_name, spender)
    session = Session(
        id=id or uuid7(),
        project=project,
        settings=dump_settings(settings),
        metadata=dict(metadata or {}),
        spawned_by=starter.session if starter else None,
        spawned_position=starter.position if starter else None,
        **(names or {}),
    )
    session.tags = tags
    set_thresholds(session)
    with writing():
        insert(session)
        check_not_deleted(id)
    return session


def insert(session: Session) -> None:
    """Saves a new session within the caller's transaction.

    Raises:
        Conflict: when its id is taken.
    """
    try:
        session.save(force_insert=True)
    except IntegrityError as error:
        raise _id_taken(session.pk) from error
    record_change(session, ChangeKind.SESSION_CREATED)


def check_not_deleted(id: UUID | None) -> None:
    """Checks an id that a client chose, after the session was saved with it: then no deletion is missed.

    Raises:
        Conflict: when a session with this id was deleted.
    """
    if id is not None and was_deleted(id):
        raise _id_taken(id)


def _id_taken(id: UUID) -> Conflict:
    return Conflict(
        f"The id {id} is taken: it belongs or belonged to another session. If that session is yours and "
        "exists, append to it; otherwise leave the id out."
    )


def change_session(
    project: Project,
    session_id: UUID,
    changes: Mapping[str, Any],
    *,
    expected: Mapping[str, Any] | None = None,
    actor: str = "",
    spender: Spender = OPERATOR,
) -> Session:
    """Changes a session.

    Args:
        changes: any of ``title``, ``agent``, ``model``, ``status``, ``tags``, ``add_tags``, ``remove_tags``,
            ``note``, ``score``, ``score_name``, ``metadata`` and ``settings``. Settings that are left out
            keep their values.
        expected: see :func:`historyapp.services.annotations.check_expected`.

    Raises:
        NotFound: when the project has no such session.
        Conflict: when a value differs from the expected one.
        Invalid: for settings that name a policy, format or strategy that does not exist, and for tags, notes
            and scores that are too long or too many.
        SpendForbidden: as :func:`check_summary_model`, if the summary model changes.
    """
    with writing():
        session = lock_session(project, session_id)
        check_names(changes.get("settings", {}))
        check_expected(session, expected or {})
        if changes.get("status", session.status) != session.status:
            action, detail = f"status: {changes['status']}", {"was": session.status}
            add_audit_record(project.pk, actor, action, session.pk, detail)
        annotate(session, {name: changes[name] for name in ANNOTATION_FIELDS if name in changes}, actor)
        for name, value in _column_changes(session, changes).items():
            merged = load_settings({**session.settings, **value}) if name == "settings" else None
            if merged and merged.llm_name != load_settings(session.settings).llm_name:
                check_summary_model(project, merged.llm_name, spender)
            setattr(session, name, dump_settings(merged) if merged else value)
        if "settings" in changes:
            set_thresholds(session)
        if "model" in changes:
            set_list_columns(session, session.live_tail)
        session.revision += 1
        session.save(update_fields=[*_COLUMNS, *(_METADATA_COLUMNS if "metadata" in changes else ())])
        record_change(session, ChangeKind.SESSION_CHANGED)
        return session


def _column_changes(session: Session, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes of the session's row, with ``tags`` instead of tags to add and to remove."""
    columns = {name: value for name, value in changes.items() if name not in ANNOTATION_FIELDS}
    added, removed = columns.pop("add_tags", ()), columns.pop("remove_tags", ())
    if added or removed:
        columns["tags"] = with_tags(columns.get("tags", session.tags), add=added, remove=removed)
    return columns


def check_names(settings: Mapping[str, Any]) -> None:
    """Checks the policy, the format and the strategy that settings name.

    Raises:
        Invalid: when a name does not exist; the error lists the existing ones.
    """
    if "policy" in settings:
        policy_named(settings["policy"])
    if settings.get("format") is not None:
        format_named(settings["format"])
    if "compression_strategy" in settings:
        strategy_named(settings["compression_strategy"])


def dump_settings(settings: SessionSettings | None) -> dict[str, Any]:
    """Settings as stored: only those that differ from the defaults."""
    return settings.model_dump(exclude_defaults=True) if settings else {}
