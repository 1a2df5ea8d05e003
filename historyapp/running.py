"""Which servers run on a data folder: each keeps a small file there, locked for as long as it lives.

The lock tells a living server from one that was killed: the kernel releases it when the process ends, however
it ends. A process id alone would not do. It is given to another program in time, and means nothing in another
container that shares the folder.
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
    """Lets other commands on this machine know the server's address while the block runs.

    Where the folder cannot hold such a file the server runs all the same; nobody knows its address then.
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
    """The address of the server that runs on this folder; of several the newest; None where none runs."""
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
        Path(draft).rename(path)  # it gets its name once it is locked: nobody sees it unlocked
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
