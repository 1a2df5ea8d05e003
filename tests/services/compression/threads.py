"""Runs that tests process in threads, as workers do."""

import threading
from collections.abc import Callable
from uuid import UUID

from django.db import connection

from historyapp.services.compression.run import process_run


def run_thread(run_id: UUID, should_stop: Callable[[], bool] = lambda: False) -> threading.Thread:
    """A thread that processes a run when it is started, and closes its connection at its end."""

    def work() -> None:
        try:
            process_run(run_id, should_stop)
        finally:
            connection.close()

    return threading.Thread(target=work)
