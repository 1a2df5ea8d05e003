"""Lets workers compute whether a cost is known only in part, see ``historyapp.services.list_columns``.

A transaction of its own: PostgreSQL lets nobody read the table until the one that adds the column ends.
"""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0072_minimum_costs")]

    operations = [
        migrations.RunSQL(
            "UPDATE historyapp_session SET is_listed = false "
            "WHERE is_listed AND money > 0 AND cost_is_minimum IS NULL",
            migrations.RunSQL.noop,
        ),
    ]
