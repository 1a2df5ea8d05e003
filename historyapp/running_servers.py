"""The running servers of a data folder. Each has a small file in it, which is locked while the server runs.

The kernel releases the lock when the process ends, even if it is killed. A process id would not be enough: it
is reused, and means nothing in another container that shares the folder.
"""

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

_FILES = "server-*.json"


@contextmanager
def announced(folder: Path, address: str) -> Iterator[None]:
    """Publishes the server's address for other commands on this machine while the block runs.

    If the file cannot be written, the server runs anyway.
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
    """The address of the newest server that runs on this folder, or None."""
    addresses = []
    for path in folder.glob(_FILES):
        try:
            if _is_locked(path):
                addresses.append((path.stat().st_mtime_ns, str(json.loads(path.read_text())["address"])))
        except (FileNotFoundError, PermissionError):
            continue  # its server has just ended, or is another user's
    return max(addresses)[1] if addresses else None


def orphan_listens(folder: Path, port: int) -> bool:
    """Whether a web process of this folder still listens on ``port`` after its parent was killed. It will end
    soon.

    The web process has inherited its parent's lock.
    """
    for path in folder.glob(_FILES):
        with suppress(OSError, ValueError, KeyError):  # its server has just ended, or the file is damaged
            server = json.loads(path.read_text())
            listens = urlsplit(server["address"]).port == port and _is_locked(path)
            if listens and not _is_alive(int(server["pid"])):
                return True
    return False


def _is_alive(pid: int) -> bool:
    """Whether the process runs. A zombie does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except OSError:  # the process belongs to another user, or there is no /proc
        return True
    return state not in "ZX"


def _write(folder: Path, address: str) -> tuple[Path, int]:
    for path in folder.glob(_FILES):
        if not _is_locked(path):
            path.unlink(missing_ok=True)
    descriptor, draft = tempfile.mkstemp(prefix=".server-", suffix=".json", dir=folder)
    path = folder / Path(draft).name.removeprefix(".")
    try:
        os.write(descriptor, json.dumps({"address": address, "pid": os.getpid()}).encode())
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        Path(draft).rename(path)  # after it is locked, so that no process sees it unlocked
    except OSError:
        os.close(descriptor)
        Path(draft).unlink(missing_ok=True)
        raise
    return path, descriptor


def _is_locked(path: Path) -> bool:
    """Whether another process holds the lock of a file."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
