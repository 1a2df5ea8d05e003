"""What changes in sessions, in order: the feed that streams, webhooks and projections read."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0038_retries_of_outcomes")]

    operations = [
        migrations.CreateModel(
            name="Change",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("transaction_id", models.BigIntegerField(default=0)),
                ("session_id", models.UUIDField()),
                ("kind", models.CharField(max_length=16)),
                ("first_position", models.PositiveIntegerField(null=True)),
                ("last_position", models.PositiveIntegerField(null=True)),
                ("run_id", models.UUIDField(null=True)),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="historyapp.project",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["project", "transaction_id", "id"], name="change_in_order")],
            },
        ),
    ]
