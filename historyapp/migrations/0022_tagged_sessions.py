"""Sessions of a tag are looked for among those that have tags."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0021_allowed_models")]

    operations = [
        migrations.AddIndex(
            "session",
            models.Index(
                fields=["project", "-last_entry_at", "-id"],
                name="session_tagged",
                condition=~models.Q(tags_text="\n"),
            ),
        ),
    ]
