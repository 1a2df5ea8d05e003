"""Figures by day count the output tokens that sources do not report. Workers count all sessions again."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0068_figures_of_forks")]

    operations = [
        *(
            migrations.AddField(name, "missing_output", models.BigIntegerField(db_default=0, default=0))
            for name in ("projectday", "sessionday")
        ),
        migrations.RunSQL(
            "UPDATE historyapp_figuresprogress SET is_complete = false, counted_to = NULL",
            migrations.RunSQL.noop,
        ),
    ]
