"""``playhead migrate``: Django's command, which refuses a database that a newer version has migrated."""

from typing import Any

from django.core.management.commands import migrate

from historyapp.services.releases import refuse_newer_database


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        refuse_newer_database()
        super().handle(*args, **options)
