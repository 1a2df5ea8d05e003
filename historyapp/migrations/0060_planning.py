from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("historyapp", "0059_accepted_compressions"),
    ]

    operations = [
        migrations.AddField(
            model_name="compressionrun",
            name="planned_to",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="compressionrun",
            name="planning_until",
            field=models.DateTimeField(null=True),
        ),
    ]
