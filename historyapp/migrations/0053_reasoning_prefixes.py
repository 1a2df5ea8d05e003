from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("historyapp", "0052_compact_changes"),
    ]

    operations = [
        migrations.AddField(
            model_name="snapshot",
            name="prefix_sha256",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
    ]
