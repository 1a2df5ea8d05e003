"""Figures of projects by day, agent, model and tool."""

import django.db.models.deletion
import historyapp.models.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("historyapp", "0040_shares"),
    ]

    operations = [
        migrations.CreateModel(
            name="FiguresProgress",
            fields=[
                (
                    "project",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="historyapp.project",
                    ),
                ),
                ("transaction_id", models.BigIntegerField(default=0)),
                ("change_id", models.BigIntegerField(default=0)),
                ("counted_to", models.UUIDField(null=True)),
                ("is_complete", models.BooleanField(default=False)),
                ("at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="CountedSession",
            fields=[
                ("session_id", models.UUIDField(primary_key=True, serialize=False)),
                ("version", models.PositiveSmallIntegerField(default=0)),
                ("head", models.PositiveIntegerField(default=0)),
                ("agent", models.CharField(blank=True, max_length=200)),
                ("model", models.CharField(blank=True, max_length=200)),
                ("began", models.DateField(null=True)),
                ("newest", historyapp.models.fields.JSONText(null=True)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="historyapp.project"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ProjectDay",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("day", models.DateField()),
                ("model", models.CharField(max_length=200)),
                ("tool", models.CharField(max_length=200)),
                ("has_cost", models.BooleanField()),
                ("is_live", models.BooleanField()),
                ("sessions", models.BigIntegerField(default=0)),
                ("steps", models.BigIntegerField(default=0)),
                ("errors", models.BigIntegerField(default=0)),
                ("likely_failures", models.BigIntegerField(default=0)),
                ("tokens", models.BigIntegerField(default=0)),
                ("model_calls", models.BigIntegerField(default=0)),
                ("uncached", models.BigIntegerField(default=0)),
                ("cache_read", models.BigIntegerField(default=0)),
                ("cache_write", models.BigIntegerField(default=0)),
                ("output", models.BigIntegerField(default=0)),
                ("cost", models.BigIntegerField(default=0)),
                ("milliseconds", models.BigIntegerField(default=0)),
                ("agent", models.CharField(max_length=200)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="days",
                        to="historyapp.project",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("project", "day", "agent", "model", "tool", "has_cost", "is_live"),
                        name="project_day",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SessionDay",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("day", models.DateField()),
                ("model", models.CharField(max_length=200)),
                ("tool", models.CharField(max_length=200)),
                ("has_cost", models.BooleanField()),
                ("is_live", models.BooleanField()),
                ("sessions", models.BigIntegerField(default=0)),
                ("steps", models.BigIntegerField(default=0)),
                ("errors", models.BigIntegerField(default=0)),
                ("likely_failures", models.BigIntegerField(default=0)),
                ("tokens", models.BigIntegerField(default=0)),
                ("model_calls", models.BigIntegerField(default=0)),
                ("uncached", models.BigIntegerField(default=0)),
                ("cache_read", models.BigIntegerField(default=0)),
                ("cache_write", models.BigIntegerField(default=0)),
                ("output", models.BigIntegerField(default=0)),
                ("cost", models.BigIntegerField(default=0)),
                ("milliseconds", models.BigIntegerField(default=0)),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="days",
                        to="historyapp.countedsession",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("session", "day", "model", "tool", "has_cost", "is_live"), name="session_day"
                    )
                ],
            },
        ),
    ]
