"""Checkpoints of the figures of runs, see ``historyapp.models.run_figures``."""

import django.db.models.deletion
import historyapp.models.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("historyapp", "0025_snapshots_by_position"),
    ]

    operations = [
        migrations.CreateModel(
            name="FiguresCheckpoint",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "session", "position", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("position", models.PositiveIntegerField()),
                ("steps", models.PositiveIntegerField()),
                ("version", models.PositiveSmallIntegerField()),
                ("state", historyapp.models.fields.PackedText()),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="figures",
                        to="historyapp.session",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["session", "steps"], name="figures_by_steps")],
            },
        ),
    ]
