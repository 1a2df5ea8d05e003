"""A Celery transport whose queue is a database table, so it needs no other server and no files.

Its URL is ``database://`` (see ``historyapp.celery``). It has only direct queues: there are no priorities,
and fan-out raises an error. Celery itself implements delays (``countdown``): the worker that took a message
keeps it.

Taking a message deletes it. If the worker dies, only the message is lost: messages only wake workers. The
work is stored in the tables of runs, and the sweep wakes workers again.
"""

import logging
import time
from collections.abc import Callable
from queue import Empty
from typing import Any

from amqp.protocol import queue_declare_ok_t
from django.db import DatabaseError, InterfaceError, connection
from kombu.transport import virtual
from kombu.utils.json import dumps, loads

from historyapp.services import queue as table
from historyapp.wire.problems import ServerUnavailable

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""Seconds between two attempts while the database is unavailable."""


class Channel(virtual.Channel):
    _outage = False
    """Whether the database was unavailable at the last attempt."""
    _next_attempt = 0.0

    def queue_declare(
        self, queue: str | None = None, passive: bool = False, **kwargs: Any
    ) -> queue_declare_ok_t:
        """Queues need no declaration. Messages are counted only with ``passive``."""
        if passive or queue is None:
            return super().queue_declare(queue, passive, **kwargs)
        return queue_declare_ok_t(queue, 0, 0)

    def exchange_declare(
        self, exchange: str | None = None, type: str = "direct", *args: Any, **kwargs: Any
    ) -> None:
        if type == "fanout":
            raise NotImplementedError(
                "The queue in the database has no fan-out, which Celery's inspect, control and events need. "
                "Set REDIS_URL to use them."
            )
        super().exchange_declare(exchange, type, *args, **kwargs)

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        table.put(queue, dumps(message))

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        """The oldest message.

        Raises:
            Empty: when there is no message, or the database is unavailable. The worker then polls again, and
                its tasks continue. Any other error would make Celery restart its consumer several times a
                second.
        """
        if time.monotonic() < self._next_attempt:
            raise Empty
        try:
            message = self._next(queue)
        except (DatabaseError, InterfaceError, ServerUnavailable) as error:
            self._note_outage(error)
            raise Empty from error
        if self._outage:
            self._outage = False
            log.warning("The queue in the database can be used again.")
        if message is None:
            raise Empty
        return message

    def _next(self, queue: str) -> dict[str, Any] | None:
        while (payload := table.take(queue)) is not None:
            try:
                message: dict[str, Any] = loads(payload)
                self.Message(message, channel=self)
                if not isinstance(message["body"], str):
                    raise ValueError("The body of the message is not text.")
                return message
            except Exception as error:  # noqa: BLE001  (no faulty message may stop a worker)
                table.store_unreadable(queue, payload, error)
        return None

    def _get_and_deliver(self, queue: str, callback: Callable[..., Any]) -> None:
        message = self._get(queue)
        try:
            callback(message, queue)
        except Exception as error:  # noqa: BLE001  (Celery checks little of a message; the error would end it)
            self.qos.ack(message["properties"]["delivery_tag"])
            table.store_unreadable(queue, dumps(message), error)

    def _note_outage(self, error: Exception) -> None:
        if not self._outage:
            reason = str(error).strip().partition("\n")[0]
            log.error(
                "The queue in the database cannot be used: %s. The worker tries again every %g s. "
                "If a table is missing, run `playhead migrate`.",
                reason,
                RETRY_SECONDS,
            )
        self._outage = True
        self._next_attempt = time.monotonic() + RETRY_SECONDS
        connection.close_if_unusable_or_obsolete()

    def _restore(self, message: Any) -> None:
        """Puts back a message that the worker has taken but not started when it stops."""
        try:
            super()._restore(message)
        except (DatabaseError, InterfaceError, ServerUnavailable) as error:
            log.warning("A message could not be put back; the sweep finds its run: %s", error)

    def _purge(self, queue: str) -> int:
        return table.purge(queue)

    def _size(self, queue: str) -> int:
        return table.size(queue)


class Transport(virtual.Transport):
    Channel = Channel
    polling_interval = 0.1
    default_port = 0
    driver_type = "sql"  # Celery sends no events over SQL transports
    driver_name = "playhead"
    connection_errors = (
        *virtual.Transport.connection_errors,
        DatabaseError,
        InterfaceError,
        ServerUnavailable,
    )
