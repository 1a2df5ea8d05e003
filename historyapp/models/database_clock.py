"""The clocks that decide when work is due, and whether a claim on work has expired."""

import json
import os
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from zlib import crc32

from django.conf import settings
from django.db import connection
from django.utils import timezone

from historyapp.models.vendor import on_sqlite

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_DAYS = 10_000
MAX_CORRECTION, UNCERTAIN_SECONDS = 60.0, 600.0
"""Seconds by which a clock may be set unnoticed, and how long its time is uncertain after it was set by more.
"""


def database_now() -> datetime:
    """The time of the database server. It is the same for workers on machines whose clocks differ.

    With SQLite all workers run on one machine, so its clock is used.
    """
    if on_sqlite():
        return timezone.now()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment


def claim_now() -> datetime:
    """The time with which the ends of claims are stored and compared.

    With SQLite on Linux, it is the time since the machine was started, which is never set: if the machine's
    clock is corrected, workers keep their claims. It is added to a day from 1970 to 1997 that depends on the
    start, so that claims from before a restart have expired: they end long before, or further ahead than any
    claim.
    """
    start = _start_day() if on_sqlite() else None
    return database_now() if start is None else start + timedelta(seconds=elapsed())


def claim_end() -> datetime:
    """The end of a claim that begins now, or is extended now."""
    return claim_now() + timedelta(seconds=settings.PLAYHEAD_CLAIM_SECONDS)


def elapsed() -> float:
    """Seconds of a clock that is never set. On Linux it continues while the machine is suspended, because
    claims in the database end then, too."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class JumpWatch:
    """Notices that the machine's clock was set since a process of this data folder compared it first.

    Processes start on demand. So what they know is in a file, which ends with the start of the machine.
    """

    def __init__(self) -> None:
        self._offset = _offset()
        self._set_at: float | None = None
        self._is_read = False

    def was_just_set(self) -> bool:
        """Whether the clock was set by more than a minute within the last ten minutes, or since the last
        call. It may be wrong and set again soon, so nothing should be forgotten now that is needed then.

        False with PostgreSQL, whose clock decides, and where no clock continues while a machine is suspended.
        """
        if not on_sqlite() or sys.platform != "linux":
            return False
        if not self._is_read:
            self._read()
        offset = _offset()
        if abs(offset - self._offset) > MAX_CORRECTION:
            self._offset, self._set_at = offset, elapsed()
            self._write()
        return self._set_at is not None and elapsed() - self._set_at < UNCERTAIN_SECONDS

    def _read(self) -> None:
        self._is_read = True
        try:
            known = json.loads(_jumps_file().read_text())
            if known["boot"] == _boot_id():
                offset, set_at = float(known["offset"]), known["set_at"]
                self._offset, self._set_at = offset, None if set_at is None else float(set_at)
                return
        except (OSError, ValueError, TypeError, KeyError):
            pass  # it does not exist yet, or is damaged
        self._write()

    def _write(self) -> None:
        known = {"boot": _boot_id(), "offset": self._offset, "set_at": self._set_at}
        draft = _jumps_file().with_suffix(f".{os.getpid()}")
        with suppress(OSError):  # a full disk, for example: this process knows it anyway
            draft.write_text(json.dumps(known))
            draft.replace(_jumps_file())


def _jumps_file() -> Path:
    return Path(settings.PLAYHEAD_HOME, "clock.json")


def _offset() -> float:
    return timezone.now().timestamp() - elapsed()


CLOCK = JumpWatch()


@cache
def _start_day() -> datetime | None:
    """A day for this start of the machine; None if the system does not tell its starts apart."""
    id = _boot_id()
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=crc32(id.encode()) % _DAYS) if id else None


def _boot_id() -> str:
    """The id of this start of the machine; empty if the system does not tell its starts apart."""
    try:
        return _BOOT_ID.read_text()
    except OSError:
        return ""
