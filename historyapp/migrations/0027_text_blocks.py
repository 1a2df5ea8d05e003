"""The texts of sessions in blocks, from which searches are answered. Workers fill the table when it is asked."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0026_run_figures")]

    operations = [
        migrations.CreateModel(
            name="TextBlock",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "session",
                        "first_position",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("first_position", models.PositiveIntegerField()),
                ("last_position", models.PositiveIntegerField()),
                ("signature", models.BinaryField()),
                ("text", models.BinaryField()),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="text_blocks",
                        to="historyapp.session",
                    ),
                ),
            ],
        ),
    ]
