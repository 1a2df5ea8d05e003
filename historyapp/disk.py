"""The disk of the data folder, for health checks and metrics."""

import shutil
from pathlib import Path

from django.conf import settings
from django.db import connection

from historyapp.models.vendor import on_sqlite


def watched_folder() -> Path:
    """The folder of the SQLite file; with PostgreSQL, the data folder of this server."""
    if on_sqlite():
        return Path(connection.settings_dict["NAME"]).parent
    return Path(settings.PLAYHEAD_HOME)


def free_bytes() -> int:
    return shutil.disk_usage(watched_folder()).free


def size_bytes() -> int:
    return shutil.disk_usage(watched_folder()).total
