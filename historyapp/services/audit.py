"""Adds and reads audit records, which say who did what."""

from typing import Any
from uuid import UUID

from historyapp.models import AuditRecord
from historyapp.models.audit import DELETION


def add_audit_record(
    project_id: UUID, actor: str, action: str, session: UUID | None, detail: dict[str, Any]
) -> None:
    """Adds an audit record within the caller's transaction."""
    AuditRecord.objects.create(
        project_id=project_id, actor=actor[:200], action=action, session=session, detail=detail
    )


def was_deleted(session: UUID) -> bool:
    """Whether a session with this id was deleted.

    The id is never used again: caches, logs and links name sessions by their ids, and would show another one.
    """
    return AuditRecord.objects.filter(session=session, action=DELETION).exists()
