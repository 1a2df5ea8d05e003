"""Lets workers compute the durations of rewound forks again, see ``historyapp.services.list_columns``.

After a rewind into the entries that a fork shares, its duration began with an entry that was cut off.
"""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0070_labels_of_reservations")]

    operations = [
        migrations.RunSQL(
            "UPDATE historyapp_session SET is_listed = false "
            "WHERE is_listed AND forked_from_id IS NOT NULL AND tail_start > fork_position + 1",
            migrations.RunSQL.noop,
        ),
    ]
