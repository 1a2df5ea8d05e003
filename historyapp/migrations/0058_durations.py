"""Lets workers compute the durations of sessions again, see ``historyapp.services.list_columns``.

They counted from the creation of a session, and included entries that a rewind had cut off. Those of forks
are 0, as before.
"""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0057_figures_in_parts")]

    operations = [
        migrations.RunSQL(
            "UPDATE historyapp_session SET is_listed = false WHERE is_listed AND forked_from_id IS NULL",
            migrations.RunSQL.noop,
        ),
    ]
