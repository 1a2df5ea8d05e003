"""Functions that a clock calls again and again. One that fails does not stop the others."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import DatabaseError, InterfaceError, connection

from historyapp.services.faults import record_fault
from historyapp.wire.problems import StorageFailed, TransactionTooLong

log = logging.getLogger(__name__)

Result = TypeVar("Result")
PAUSE_SECONDS = 60.0
"""Seconds before a function is called again whose write transaction took too long."""


class Duties:
    """Calls functions and logs their errors. The same error is logged once, until the function succeeds."""

    def __init__(self) -> None:
        self._errors: dict[str, str] = {}
        """The error of the last call of each function that failed, by name."""
        self._not_before: dict[str, float] = {}
        """When each function whose write transaction took too long is called again, by name."""

    @property
    def failing(self) -> list[str]:
        """The names of the functions whose last call failed."""
        return list(self._errors)

    def attempt(self, name: str, duty: Callable[[], Result]) -> Result | None:
        """Calls a function. Returns its result, or None after an error.

        A function whose write transaction took too long is not called for a minute, because others cannot
        write meanwhile.

        Args:
            name: what the function does, for the log.
        """
        if time.monotonic() < self._not_before.get(name, 0.0):
            return None
        try:
            result = duty()
        except (DatabaseError, InterfaceError) as error:
            record_fault(error)
            if self._is_new(name, str(error)):
                log.warning("The clock cannot use the database to %s: %s", name, error)
            connection.close()
        except StorageFailed as fault:
            if self._is_new(name, str(fault)):
                log.warning("The clock waits to %s: %s", name, fault)
        except TransactionTooLong as error:
            self._not_before[name] = time.monotonic() + PAUSE_SECONDS
            if self._is_new(name, str(error)):
                log.error("The clock could not %s: %s", name, error)
        except Exception as error:  # without its clock, a worker would be considered dead
            if self._is_new(name, repr(error)):
                log.exception("The clock could not %s. It tries again.", name)
        else:
            self._errors.pop(name, None)
            return result
        return None

    def _is_new(self, name: str, text: str) -> bool:
        """Records an error. Returns whether no function had the same error at its last call."""
        is_new = text not in self._errors.values()
        self._errors[name] = text
        return is_new
