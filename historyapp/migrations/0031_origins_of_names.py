"""The index of names, see ``historyapp.models.origins``. Workers fill it when somebody asks."""

import django.db.models.deletion
from django.db import migrations, models


def _id():
    return models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")


def _key(*columns):
    return models.CompositePrimaryKey(*columns, blank=True, editable=False, primary_key=True, serialize=False)


def _part_of(owner, related_name, **options):
    return models.ForeignKey(
        on_delete=django.db.models.deletion.CASCADE,
        related_name=related_name,
        to=f"historyapp.{owner}",
        **options,
    )


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0030_what_ifs")]

    operations = [
        migrations.CreateModel(
            name="NameIndex",
            fields=[
                ("id", _id()),
                ("position", models.PositiveIntegerField(default=0)),
                ("unread", models.PositiveIntegerField(default=0)),
                (
                    "session",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="name_index",
                        to="historyapp.session",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="NameRun",
            fields=[
                ("id", _id()),
                ("size", models.PositiveIntegerField()),
                ("is_live", models.BooleanField(default=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("index", _part_of("nameindex", "runs")),
            ],
        ),
        migrations.CreateModel(
            name="NamePage",
            fields=[
                ("pk", _key("run", "first")),
                ("first", models.BigIntegerField()),
                ("places", models.BinaryField()),
                ("run", _part_of("namerun", "pages", db_index=False)),
            ],
        ),
        migrations.CreateModel(
            name="StepNames",
            fields=[
                ("pk", _key("index", "position")),
                ("position", models.PositiveIntegerField()),
                ("number", models.PositiveIntegerField()),
                ("unseen", models.PositiveSmallIntegerField(default=0)),
                ("gone", models.PositiveSmallIntegerField(default=0)),
                ("index", _part_of("nameindex", "steps", db_index=False)),
            ],
        ),
    ]
