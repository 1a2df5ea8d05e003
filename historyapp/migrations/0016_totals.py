"""Running totals for ``/metrics``; what earlier versions counted in their runs is added up once."""

from typing import Any

from django.db import migrations, models
from django.db.models import Count, Sum


def add_up(apps: Any, schema_editor: Any) -> None:
    runs, totals = apps.get_model("historyapp", "CompressionRun"), apps.get_model("historyapp", "Total")
    ended = runs.objects.exclude(state__in=("queued", "running")).order_by()
    for state, number in ended.values_list("state").annotate(Count("id")):
        totals.objects.create(name="ended runs", label=state, value=number)
    by_provider: dict[str, tuple[int, int]] = {}
    used = runs.objects.filter(calls__gt=0).order_by()
    for model, calls, cost in used.values_list("model").annotate(Sum("calls"), Sum("cost")):
        label = f"compression {model.partition(':')[0]}"
        known = by_provider.get(label, (0, 0))
        by_provider[label] = known[0] + calls, known[1] + (cost or 0)
    for label, (calls, cost) in by_provider.items():
        totals.objects.create(name="model calls", label=label, value=calls)
        if cost:
            totals.objects.create(name="cost", label=label, value=cost)


class Migration(migrations.Migration):
    dependencies = [
        ("historyapp", "0015_paid_automatic_compression"),
    ]

    operations = [
        migrations.CreateModel(
            name="Total",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "name",
                    models.CharField(
                        choices=[
                            ("ended runs", "Ended Runs"),
                            ("model calls", "Model Calls"),
                            ("failed model calls", "Failed Model Calls"),
                            ("cost", "Cost"),
                        ],
                        max_length=40,
                    ),
                ),
                ("label", models.CharField(max_length=100)),
                ("value", models.BigIntegerField(default=0)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("name", "label"), name="total_once")],
            },
        ),
        migrations.RunPython(add_up, migrations.RunPython.noop),
    ]
