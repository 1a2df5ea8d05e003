from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("historyapp", "0058_durations"),
    ]

    operations = [
        migrations.AddField(
            model_name="bulkitem",
            name="accepted_cost",
            field=models.PositiveBigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="bulkitem",
            name="accepted_model",
            field=models.CharField(blank=True, max_length=200),
        ),
        migrations.AddField(
            model_name="bulkitem",
            name="accepted_step",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="bulkitem",
            name="accepted_strategy",
            field=models.CharField(blank=True, max_length=50),
        ),
        migrations.AddField(
            model_name="compressionrun",
            name="batch_size",
            field=models.PositiveIntegerField(null=True),
        ),
    ]
