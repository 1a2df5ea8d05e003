from django.db import migrations

import historyapp.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("historyapp", "0050_dictionary"),
    ]

    operations = [
        migrations.AddField(
            model_name="project",
            name="summary_instruction",
            field=historyapp.models.fields.JSONText(default=str),
        ),
    ]
