"""Refuses a database that a newer version has migrated, because this version does not know its tables."""

from importlib import import_module
from importlib.metadata import version
from pkgutil import iter_modules
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from historyapp.models import Release

APP = "historyapp"
"""The app with our migrations."""


def refuse_newer_database(**_: Any) -> None:
    """Runs before commands and migrations. Compares only names, because loading the migrations takes far
    longer.

    Raises:
        ImproperlyConfigured: when migrations of a newer version were applied. The message names the version.
    """
    try:
        applied = {name for app, name in MigrationRecorder(connection).applied_migrations() if app == APP}
    except DatabaseError:
        return  # the next query reports the error
    known = {name for _, name, _ in iter_modules(import_module(f"{APP}.migrations").__path__)}
    unknown = sorted(applied - known)
    if unknown:
        raise ImproperlyConfigured(
            f"A newer Playhead has migrated this database: {version('playhead')} does not know the migration "
            f"{unknown[-1]}. Install {_required_version()}."
        )


def _required_version() -> str:
    try:
        newest = Release.objects.order_by("-migrated_at").values_list("version", flat=True).first()
    except DatabaseError:
        newest = None
    if newest is None or newest == version("playhead"):
        return "the version that was used last"
    return f"Playhead {newest} or newer"


def record_release(**_: Any) -> None:
    """Records this version after each migration (a receiver of ``post_migrate``)."""
    # The table is missing if the database was migrated back to an earlier version.
    if Release._meta.db_table in connection.introspection.table_names():
        now = {"migrated_at": timezone.now()}
        Release.objects.update_or_create(version=version("playhead"), defaults=now)
