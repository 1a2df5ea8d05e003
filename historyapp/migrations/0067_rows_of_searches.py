"""On PostgreSQL, the index of searches also finds rows by their ids, 16,384 together.

So a search reads the newest matching rows, and not all of them before it sorts them.
"""

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

_TOKENS = "array_remove(string_to_array(words, ' '), '\ue000')"
_DROP = "DROP INDEX search_words"
_CREATE = "CREATE INDEX search_words ON historyapp_searchstep USING gin (array_to_tsvector({}))"


def with_rows(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    _create(schema_editor, f"array_append({_TOKENS}, '\ue00b' || to_hex(id >> 14))")


def without_rows(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    _create(schema_editor, _TOKENS)


def _create(schema_editor: BaseDatabaseSchemaEditor, tokens: str) -> None:
    if schema_editor.connection.vendor != "sqlite":
        with schema_editor.connection.cursor() as cursor:
            cursor.execute(_DROP)
            cursor.execute(_CREATE.format(tokens))


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0066_cache_writes_for_an_hour")]

    operations = [migrations.RunPython(with_rows, without_rows)]
