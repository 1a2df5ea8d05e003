"""Lists store whether a cost is known only in part, so that groups can say so.

Workers compute it for sessions with a cost, see the next migration.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0071_durations_of_rewound_forks")]

    operations = [
        migrations.AddField("session", "cost_is_minimum", models.BooleanField(null=True)),
    ]
