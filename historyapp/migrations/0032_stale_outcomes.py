"""Names the sessions whose steps lack kinds, targets and likely failures, or have those of earlier rules.

Workers work them out after the migration, see ``historyapp.services.outcomes``.
"""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0031_origins_of_names")]

    operations = [
        migrations.CreateModel(
            name="StaleOutcomes",
            fields=[
                (
                    "session",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="stale_outcomes",
                        serialize=False,
                        to="historyapp.session",
                    ),
                ),
                ("after", models.PositiveIntegerField(default=0)),
            ],
        ),
        migrations.RunSQL(
            "INSERT INTO historyapp_staleoutcomes (session_id, after) "
            "SELECT id, 0 FROM historyapp_session WHERE steps > 0 OR head > 0",
            migrations.RunSQL.noop,
        ),
    ]
