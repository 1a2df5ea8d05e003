"""The Django app with the log."""

from django.apps import AppConfig
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate, pre_migrate


class HistoryAppConfig(AppConfig):
    name = "historyapp"
    verbose_name = "Playhead"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from historyapp.services.lock_waits import limit_waits, wait_without_limits
        from historyapp.services.releases import (
            note_release,
            refuse_newer_database,
        )  # it imports models, which need the app registry

        connection_created.connect(limit_waits)
        pre_migrate.connect(wait_without_limits, sender=self)
        pre_migrate.connect(refuse_newer_database, sender=self)
        post_migrate.connect(note_release, sender=self)
