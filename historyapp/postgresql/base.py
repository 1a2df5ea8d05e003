"""Django's backend for PostgreSQL, with a limit for the connections of long work."""

from collections.abc import Hashable
from typing import Any

from django.db.backends.postgresql import base

from historyapp.services.connections import give_slot_back, take_slot


class DatabaseWrapper(base.DatabaseWrapper):
    """A thread's connection. See :mod:`historyapp.services.connections`."""

    _slot: Hashable | None = None
    """The owner of the slot that the connection takes."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Takes a slot for the connection, and gives it back if the connection fails."""
        self._slot = take_slot()
        try:
            return super().get_new_connection(conn_params)
        except BaseException:
            self._give_back()
            raise

    def _close(self) -> None:
        try:
            super()._close()  # type: ignore[misc]  # the stubs do not know it
        finally:
            self._give_back()

    def _give_back(self) -> None:
        slot, self._slot = self._slot, None
        give_slot_back(slot)
