"""The list of models that a project allows."""

from django.db import migrations

import historyapp.models.fields


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0020_runs_by_project")]

    operations = [
        migrations.AddField("Project", "allowed_models", historyapp.models.fields.JSONText(default=list)),
    ]
