"""When a worker next tries to work out the outcomes of a session that could not be read."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0037_versions_of_name_indexes")]

    operations = [
        migrations.AddField("staleoutcomes", "retry_at", models.DateTimeField(null=True)),
    ]
