"""Adds audit records, which say who did what."""

from typing import Any
from uuid import UUID

from historyapp.models import AuditRecord


def add_audit_record(
    project_id: UUID, actor: str, action: str, session: UUID | None, detail: dict[str, Any]
) -> None:
    """Adds an audit record within the caller's transaction."""
    AuditRecord.objects.create(
        project_id=project_id, actor=actor[:200], action=action, session=session, detail=detail
    )
