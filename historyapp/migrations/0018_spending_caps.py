"""Caps on what a project spends on model calls."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("historyapp", "0017_releases"),
    ]

    operations = [
        migrations.CreateModel(
            name="SpendingCap",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "period",
                    models.CharField(choices=[("day", "day"), ("month", "month")], max_length=5),
                ),
                ("limit", models.PositiveBigIntegerField()),
                ("starts_on", models.DateField()),
                ("spent", models.PositiveBigIntegerField(default=0)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="caps",
                        to="historyapp.project",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("project", "period"), name="cap_once")],
            },
        ),
    ]
