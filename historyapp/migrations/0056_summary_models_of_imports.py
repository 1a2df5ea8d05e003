"""Removes the summary models that earlier versions took from imported files.

A file must not choose a model that others pay for. Only files in Playhead JSONL contain settings, and a fork
copies the settings of its parent. No record says whether a person has set the model of such a session since its
import. So every such model is removed, except ``local``, and an audit record names it.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import migrations, transaction
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from historyapp.models.fields import as_uuid

_LOCAL = "local"
_BATCH_SIZE = 500
_COLUMNS = ("pk", "project_id", "settings", "revision")
# A fork may have a model that its parent no longer has. UNION visits each session once.
_IMPORTED_WITH_MODEL = """
WITH RECURSIVE imported (id) AS (
    SELECT session_id FROM historyapp_importsource WHERE format = 'playhead_jsonl'
    UNION
    SELECT fork.id FROM imported JOIN historyapp_session AS fork ON fork.forked_from_id = imported.id
)
SELECT session.id FROM imported JOIN historyapp_session AS session ON session.id = imported.id
WHERE session.settings LIKE %s ORDER BY session.id
"""


def _remove_models(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    connection = schema_editor.connection
    with connection.cursor() as cursor:
        cursor.execute(_IMPORTED_WITH_MODEL, ['%"llm_name"%'])
        ids = [as_uuid(id) for (id,) in cursor.fetchall()]
    for start in range(0, len(ids), _BATCH_SIZE):
        with transaction.atomic(connection.alias):
            _remove_models_of(apps, connection.alias, ids[start : start + _BATCH_SIZE])


def _remove_models_of(apps: StateApps, database: str, ids: Sequence[UUID]) -> None:
    sessions: Any = apps.get_model("historyapp", "Session").objects.using(database)
    records: Any = apps.get_model("historyapp", "AuditRecord")
    changed, removed = [], []
    for session in sessions.select_for_update().filter(pk__in=ids).order_by("pk").only(*_COLUMNS):
        if session.settings.get("llm_name", _LOCAL) != _LOCAL:
            detail = {"was": session.settings.pop("llm_name")}
            session.revision += 1  # ETags contain it
            changed.append(session)
            removed.append(
                records(
                    project_id=session.project_id,
                    actor="upgrade",
                    action="remove summary model of an import",
                    session=session.pk,
                    detail=detail,
                )
            )
    sessions.bulk_update(changed, ("settings", "revision"), batch_size=100)
    records.objects.using(database).bulk_create(removed)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("historyapp", "0055_due_by_project")]

    operations = [migrations.RunPython(_remove_models, migrations.RunPython.noop, atomic=False)]
