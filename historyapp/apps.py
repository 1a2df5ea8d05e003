"""The Django app with the log."""

import sys
from types import ModuleType

from django.apps import AppConfig
from django.core.signals import setting_changed
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate, pre_migrate


class HistoryAppConfig(AppConfig):
    name = "historyapp"
    verbose_name = "Playhead"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Imported here, because it imports models, which need the app registry.
        from historyapp.services.releases import record_release, refuse_newer_database
        from historyapp.services.statement_limits import limit_waits, wait_without_limits

        connection_created.connect(limit_waits)
        pre_migrate.connect(wait_without_limits, sender=self)
        pre_migrate.connect(refuse_newer_database, sender=self)
        post_migrate.connect(record_release, sender=self)


def _import_ninja() -> None:
    """Imports Ninja without Django's tools for tests, which would load unittest, Jinja and others.

    Ninja needs only a signal of ``django.core``, but imports it from ``django.test.signals``. So during the
    import, stand-in modules have only this signal.
    """
    if "django.test" in sys.modules:
        return
    signals = ModuleType("django.test.signals")
    vars(signals)["setting_changed"] = setting_changed
    stand_ins = {"django.test": ModuleType("django.test"), signals.__name__: signals}
    sys.modules.update(stand_ins)
    try:
        import ninja  # noqa: F401
    finally:
        for name in stand_ins:
            del sys.modules[name]


_import_ninja()
