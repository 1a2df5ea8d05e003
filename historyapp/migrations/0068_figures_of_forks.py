"""Lets workers compute time, tokens and cost of forks again, see ``historyapp.services.list_columns``.

Tokens and cost included those of the entries that a fork shares with its parent, and there was no time.
"""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0067_rows_of_searches")]

    operations = [
        migrations.RunSQL(
            "UPDATE historyapp_session SET is_listed = false WHERE is_listed AND forked_from_id IS NOT NULL",
            migrations.RunSQL.noop,
        ),
    ]
