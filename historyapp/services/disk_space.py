"""Refuses requests that make the server store much more than they send, while the disk is nearly full."""

import shutil

from django.conf import settings

from historyapp.disk import watched_folder
from historyapp.wire.problems import DiskLow

MIN_SHARE = 0.1
"""On a small disk, this share of it must be free instead of ``PLAYHEAD_DISK_ALARM``."""


def check_disk_space(advice: str = "") -> None:
    """Checks the free space of the disk of the data folder, before derived data or an import is stored.

    Most appends are not checked: they take about what the client sends. With a full disk, nothing could be
    appended at all. An import can store a multiple of its file, and can be repeated later.

    Args:
        advice: what else the client can do.

    Raises:
        DiskLow: if the disk has too little free space.
    """
    try:
        disk = shutil.disk_usage(watched_folder())
    except OSError:
        return  # /readyz reports it
    least = min(settings.PLAYHEAD_DISK_ALARM, int(MIN_SHARE * disk.total))
    if disk.free < least:
        raise DiskLow(
            f"The disk of the server has {disk.free:,} bytes of free space. Below {least:,} "
            "(PLAYHEAD_DISK_ALARM), it stores no imports, forks, rewinds, contexts or compressions, and no "
            "batches of entries that each store long totals of many models, so that other appends still find "
            f"space. The operator must free space.{advice and f' {advice}'}"
        )
