"""The version of the rules by which an index of names was made. Those that are there have the first one."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0036_totals_of_steps")]

    operations = [
        migrations.AddField("nameindex", "version", models.PositiveSmallIntegerField(default=1)),
    ]
