"""What is kept of a step for choosing contexts, stored with its row. Null in older rows: worked out when read."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0005_compressions")]

    operations = [
        migrations.AddField(model_name="episode", name="excerpt", field=models.TextField(null=True)),
    ]
