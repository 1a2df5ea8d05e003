"""The queue that wakes workers, where there is no Redis."""

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("historyapp", "0010_step_filters"),
    ]

    operations = [
        migrations.CreateModel(
            name="QueuedMessage",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("queue", models.CharField(max_length=200)),
                ("payload", models.TextField()),
                ("problem", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "indexes": [models.Index(fields=["queue", "problem", "id"], name="waiting_messages")],
            },
        ),
    ]
