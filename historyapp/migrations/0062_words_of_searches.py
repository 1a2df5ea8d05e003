"""On PostgreSQL, the index of searches stores tokens in their order as text instead of a ``tsvector``.

A ``tsvector`` stores the positions of tokens, which takes twice as much space. Only the index needs one.
"""

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

_GAP = "\ue000"
_TOKENS = f"""
CREATE FUNCTION pg_temp.playhead_tokens(tsvector) RETURNS text LANGUAGE sql AS $$
SELECT string_agg(lexeme || CASE WHEN next_place > place + 1 THEN ' {_GAP}' ELSE '' END, ' ' ORDER BY place)
FROM (
    SELECT lexeme, place, lead(place) OVER (ORDER BY place) AS next_place
    FROM unnest($1) AS word, unnest(word.positions) AS place
) AS placed
$$
"""
_FORWARDS = (
    "DROP INDEX search_words",
    _TOKENS,
    "ALTER TABLE historyapp_searchstep ALTER COLUMN words TYPE text USING pg_temp.playhead_tokens(words)",
    "CREATE INDEX search_words ON historyapp_searchstep "
    f"USING gin (array_to_tsvector(array_remove(string_to_array(words, ' '), '{_GAP}')))",
    "DROP FUNCTION pg_temp.playhead_tokens(tsvector)",
)
_BACKWARDS = (
    "DROP INDEX search_words",
    "DELETE FROM historyapp_searchstep",
    "DELETE FROM historyapp_searchprogress",
    "ALTER TABLE historyapp_searchstep ALTER COLUMN words TYPE tsvector USING NULL",
    "CREATE INDEX search_words ON historyapp_searchstep USING gin (words)",
)


def store_texts(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    _execute(schema_editor, _FORWARDS)


def store_vectors(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Empties the index. Workers make it again."""
    _execute(schema_editor, _BACKWARDS)


def _execute(schema_editor: BaseDatabaseSchemaEditor, statements: tuple[str, ...]) -> None:
    if schema_editor.connection.vendor != "sqlite":
        with schema_editor.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0061_audit_of_deletions")]

    operations = [migrations.RunPython(store_texts, store_vectors)]
