"""Lets workers compute the durations of all sessions again, see ``historyapp.services.list_columns``.

They counted from the creation of a session, and included entries that a rewind had cut off.
"""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0057_figures_in_parts")]

    operations = [
        migrations.RunSQL("UPDATE historyapp_session SET is_listed = false", migrations.RunSQL.noop),
    ]
