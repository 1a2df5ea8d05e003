"""The Django app with the log."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class HistoryAppConfig(AppConfig):
    name = "historyapp"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from historyapp.services.releases import note_release  # imports models

        post_migrate.connect(note_release, sender=self)
