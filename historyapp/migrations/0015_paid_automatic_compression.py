"""Automatic compression calls a provider's model only where the project turned this on."""

from typing import Any

from django.db import migrations, models


def use_the_local_summariser(apps: Any, schema_editor: Any) -> None:
    """Automatic runs that an earlier version started with a provider's model continue without it."""
    runs = apps.get_model("historyapp", "CompressionRun").objects
    automatic = runs.filter(automatic=True, state__in=("queued", "running"))
    automatic.exclude(model__in=("", "local")).update(model="local")


class Migration(migrations.Migration):
    dependencies = [
        ("historyapp", "0014_purged_responses"),
    ]

    operations = [
        migrations.AddField(
            model_name="project",
            name="paid_automatic_compression",
            field=models.BooleanField(default=False),
        ),
        migrations.RunPython(use_the_local_summariser, migrations.RunPython.noop),
    ]
