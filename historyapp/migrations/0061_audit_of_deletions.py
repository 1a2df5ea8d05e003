from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("historyapp", "0060_planning"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="auditrecord",
            index=models.Index(
                condition=models.Q(("action", "purge")), fields=["session"], name="audit_of_deletions"
            ),
        ),
    ]
