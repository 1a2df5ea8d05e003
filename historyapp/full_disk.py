"""What is said about a full disk. Imports no Django, because the parent of the web process says it too."""

import shutil
from pathlib import Path

START_BYTES = 8_000_000
"""The free space that a start needs. A new database takes 2.5 MB."""


def full_disk(folder: Path, needed: int = START_BYTES) -> str:
    """What is wrong with the disk of a folder that is full, and what to do."""
    try:
        free = f"{shutil.disk_usage(folder).free:,}"
    except OSError as error:
        free = f"an unknown number ({error.strerror}) of"
    return (
        f"The disk of {folder} is full or refuses writes: it has {free} bytes of free space, and Playhead "
        f"needs about {needed:,}. Free some space."
    )
