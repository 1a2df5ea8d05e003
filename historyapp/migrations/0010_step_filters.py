"""Finding steps by status, tool and time."""

import json

from django.db import migrations, models

_AT_ONCE = 2_000
_STATUSES = {
    "episode_errors": "error",
    "episode_interrupted": "interrupted_by_human",
    "episode_answered": "answered",
    "episode_abandoned": "abandoned",
}


def fill(apps, schema_editor):
    """Gives each row the one tool that all its calls name, or a line feed where they name several."""
    with schema_editor.connection.cursor() as read, schema_editor.connection.cursor() as write:
        key = None
        while True:
            where, values = ("", []) if key is None else ("WHERE (session_id, anchor) > (%s, %s) ", list(key))
            read.execute(
                f"SELECT session_id, anchor, tool_names FROM historyapp_episode {where}"
                f"ORDER BY session_id, anchor LIMIT {_AT_ONCE}",
                values,
            )
            rows = read.fetchall()
            if not rows:
                return
            named = [
                (_tool(json.loads(names)), session, anchor)
                for session, anchor, names in rows
                if names != "[]"
            ]
            write.executemany(
                "UPDATE historyapp_episode SET tool = %s WHERE session_id = %s AND anchor = %s", named
            )
            key = rows[-1][:2]


def _tool(names):
    return names[0] if len(set(names)) == 1 else "\n"


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0009_run_prices")]

    operations = [
        migrations.AddField(
            model_name="episode",
            name="tool",
            field=models.CharField(blank=True, db_default="", max_length=100),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.RemoveIndex(model_name="episode", name="episode_errors"),
        migrations.RemoveIndex(model_name="episode", name="episode_by_number"),
        migrations.AddIndex(
            model_name="episode",
            index=models.Index(fields=["session", "number", "started_at"], name="episode_by_number"),
        ),
        migrations.AddIndex(
            model_name="episode",
            index=models.Index(fields=["session", "tool", "number", "started_at"], name="episode_by_tool"),
        ),
        *[
            migrations.AddIndex(
                model_name="episode",
                index=models.Index(
                    fields=["session", "number", "started_at"], name=name, condition=models.Q(status=status)
                ),
            )
            for name, status in _STATUSES.items()
        ],
    ]
