"""Runs are found by their project and state, and items by their claim."""

import django.db.models.deletion
from django.db import migrations, models

FILL = """UPDATE historyapp_compressionrun SET project_id = (
    SELECT project_id FROM historyapp_session WHERE historyapp_session.id = historyapp_compressionrun.session_id)"""


def project(**options):
    return models.ForeignKey(
        db_index=False,
        on_delete=django.db.models.deletion.CASCADE,
        related_name="+",
        to="historyapp.project",
        **options,
    )


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0019_caps_of_sessions_and_keys")]

    operations = [
        migrations.AddField("compressionrun", "project", project(null=True)),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.AlterField("compressionrun", "project", project()),
        migrations.RemoveIndex("compressionrun", "run_active"),
        migrations.AddIndex("compressionrun", models.Index(fields=["state", "id"], name="run_by_state")),
        migrations.AddIndex("compressionrun", models.Index(fields=["project", "-id"], name="run_by_project")),
        migrations.AddIndex(
            "compressionitem",
            models.Index(
                fields=["claim"], name="item_by_claim", condition=models.Q(("claim__isnull", False))
            ),
        ),
    ]
