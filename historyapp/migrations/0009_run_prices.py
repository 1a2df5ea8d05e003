"""The date of the price list by which a compression run's cost was worked out."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("historyapp", "0008_workers"),
    ]

    operations = [
        migrations.AddField(
            model_name="compressionrun",
            name="prices_as_of",
            field=models.CharField(blank=True, default="", max_length=40),
            preserve_default=False,
        ),
    ]
