"""The servers that run on a data folder. Each has a small file there, locked while the server runs.

The kernel releases the lock when the process ends, even if it is killed. A process id would not be enough: it
is reused, and means nothing in another container that shares the folder.
"""

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FILES = "server-*.json"


@contextmanager
def announced(folder: Path, address: str) -> Iterator[None]:
    """Stores the server's address for other commands on this machine while the block runs.

    If the file cannot be written, the server runs without it.
    """
    try:
        path, descriptor = _write(folder, address)
    except OSError:
        yield
        return
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def running_address(folder: Path) -> str | None:
    """The address of the server that runs on this folder, the newest of several, or None."""
    found = []
    for path in folder.glob(_FILES):
        try:
            if _is_locked(path):
                found.append((path.stat().st_mtime_ns, str(json.loads(path.read_text())["address"])))
        except FileNotFoundError:
            continue  # its server has just ended
    return max(found)[1] if found else None


def _write(folder: Path, address: str) -> tuple[Path, int]:
    for path in folder.glob(_FILES):
        if not _is_locked(path):
            path.unlink(missing_ok=True)
    descriptor, draft = tempfile.mkstemp(prefix=".server-", suffix=".json", dir=folder)
    path = folder / Path(draft).name.removeprefix(".")
    try:
        os.write(descriptor, json.dumps({"address": address, "pid": os.getpid()}).encode())
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        Path(draft).rename(path)  # renamed once it is locked: nobody sees it unlocked
    except OSError:
        os.close(descriptor)
        Path(draft).unlink(missing_ok=True)
        raise
    return path, descriptor


def _is_locked(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
