"""Workers that live, for the health check."""

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("historyapp", "0007_search_text"),
    ]

    operations = [
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("host", models.CharField(blank=True, max_length=200)),
                ("started_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("seen_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
    ]
