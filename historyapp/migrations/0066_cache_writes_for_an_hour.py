"""Figures by day count the tokens that were written to a cache for an hour, which cost more."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0065_turns_of_commands")]

    operations = [
        migrations.AddField(name, "cache_write_hour", models.BigIntegerField(db_default=0, default=0))
        for name in ("projectday", "sessionday")
    ]
