"""Django's backend for PostgreSQL, with a limit for the connections of long work, and without pipelines."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from django.db.backends.postgresql import base

from historyapp.services.connections import give_slot_back, take_slot

MAX_ROWS, MAX_CHARACTERS = 100, 1 << 20
"""The rows that are sent together, and the characters and bytes of their values after which no more are."""


class CursorWithoutPipelines(base.Cursor):
    """Sends the statements of many rows as one text.

    psycopg would send them in a pipeline, within and after which PostgreSQL does not apply
    ``idle_in_transaction_session_timeout``: a suspended process would keep its transaction for ever.
    """

    def executemany(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        for part in _parts(rows):
            statements, values = ";".join([query] * len(part)), list(chain.from_iterable(part))
            self.execute(statements, values)  # type: ignore[attr-defined]  # the stubs do not know it


class DatabaseWrapper(base.DatabaseWrapper):
    """A thread's connection. See :mod:`historyapp.services.connections`."""

    _slot: Hashable | None = None
    """The owner of the slot that the connection takes."""

    def get_connection_params(self) -> dict[str, Any]:
        return {**super().get_connection_params(), "cursor_factory": CursorWithoutPipelines}

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


def _parts(rows: Iterable[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    part, characters = list[Sequence[Any]](), 0
    for row in rows:
        part.append(row)
        characters += sum([len(value) for value in row if isinstance(value, (str, bytes))])
        if len(part) >= MAX_ROWS or characters >= MAX_CHARACTERS:
            yield part
            part, characters = [], 0
    if part:
        yield part
