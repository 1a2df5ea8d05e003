"""Spending counters and caps of sessions and API keys, and reservations of calls that are under way."""

import django.db.models.deletion
import uuid_utils.compat
from django.db import migrations, models

import historyapp.models.fields

_OF_PROJECT = models.Q(session=None, key=None)


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0018_spending_caps")]

    operations = [
        migrations.RemoveConstraint("SpendingCap", "cap_once"),
        migrations.RenameModel("SpendingCap", "SpendingCounter"),
        migrations.RenameField("SpendingCounter", "spent", "counted"),
        migrations.AlterField("SpendingCounter", "limit", models.PositiveBigIntegerField(null=True)),
        migrations.AlterField(
            "SpendingCounter",
            "project",
            models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="spending",
                to="historyapp.project",
            ),
        ),
        migrations.AddField(
            "SpendingCounter",
            "session",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="spending",
                to="historyapp.session",
            ),
        ),
        migrations.AddField(
            "SpendingCounter",
            "key",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="spending",
                to="historyapp.apikey",
            ),
        ),
        migrations.AddConstraint(
            "SpendingCounter",
            models.UniqueConstraint(
                fields=("project", "period"), condition=_OF_PROJECT, name="project_counter_once"
            ),
        ),
        migrations.AddConstraint(
            "SpendingCounter",
            models.UniqueConstraint(fields=("session", "period"), name="session_counter_once"),
        ),
        migrations.AddConstraint(
            "SpendingCounter",
            models.UniqueConstraint(fields=("key", "period"), name="key_counter_once"),
        ),
        migrations.AddIndex(
            "SpendingCounter",
            models.Index(fields=("project",), condition=models.Q(limit__isnull=False), name="cap_by_project"),
        ),
        migrations.CreateModel(
            name="SpendingReservation",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("counters", historyapp.models.fields.JSONText(default=list)),
                ("amount", models.PositiveBigIntegerField()),
                ("day", models.DateField()),
                ("expires_at", models.DateTimeField()),
                (
                    "project",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="historyapp.project"),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["project", "expires_at"], name="reservation_by_expiry")],
            },
        ),
        migrations.AddField(
            "CompressionRun",
            "api_key",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="historyapp.apikey",
            ),
        ),
    ]
