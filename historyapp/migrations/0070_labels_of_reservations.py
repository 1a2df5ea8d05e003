"""A reservation knows the total of ``/metrics`` to which its cost is added when it ends."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0069_missing_output")]

    operations = [
        migrations.AddField(
            "spendingreservation", "label", models.CharField(db_default="", default="", max_length=100)
        )
    ]
