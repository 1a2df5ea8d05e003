"""The Django app with the log."""

from django.apps import AppConfig


class HistoryAppConfig(AppConfig):
    name = "historyapp"
    default_auto_field = "django.db.models.BigAutoField"
