"""Slash commands that the model answers begin turns.

Workers compute the turns again, see ``historyapp.services.outcomes``, of all sessions that were imported from
Claude Code's files or Playhead's own exports, and of their forks: only these have such commands.
"""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0064_packed_snapshots")]

    operations = [
        migrations.RunSQL(
            "WITH RECURSIVE imported (id) AS ("
            "SELECT session_id FROM historyapp_importsource WHERE format IN ('claude_code', 'playhead_jsonl') "
            "UNION SELECT fork.id FROM historyapp_session fork JOIN imported ON fork.forked_from_id = imported.id"
            ") INSERT INTO historyapp_staleoutcomes (session_id, after) SELECT id, 0 FROM imported WHERE true "
            "ON CONFLICT (session_id) DO UPDATE SET after = 0",
            migrations.RunSQL.noop,
        ),
    ]
