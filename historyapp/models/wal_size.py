"""The size of SQLite's log of changes (the WAL)."""

import os
import shutil
from pathlib import Path

MAX_BYTES = 1 << 27
"""A longer log is too long; also one that takes more than a third as much as is free on the disk, because
the database may need as much space as the log when it is written back. SQLite itself keeps 64 MB."""


def excessive_wal(path: str) -> int:
    """The bytes of the log of a database if it is too long, else 0.

    Raises:
        OSError: when there is no log.
    """
    size = os.stat(f"{path}-wal").st_size  # noqa: PTH116 each second
    is_too_long = size > min(MAX_BYTES, shutil.disk_usage(Path(path).parent).free // 3)
    return size if is_too_long else 0
