"""Registers running workers."""

import socket
from datetime import timedelta
from uuid import UUID

from django.utils import timezone

from historyapp.core.text import preview
from historyapp.models import Worker
from historyapp.services.transactions import writing

_KEPT_FOR = timedelta(days=1)


def worker_host() -> str:
    """This machine's name, with which its workers register."""
    return preview(socket.gethostname())


def record_worker(id: UUID) -> None:
    """Records that the worker is running, and deletes the rows of workers that died long ago."""
    now = timezone.now()
    with writing():
        values = {"seen_at": now, "host": worker_host()}
        _, is_new = Worker.objects.update_or_create(id=id, defaults=values)
        if is_new:
            Worker.objects.filter(seen_at__lt=now - _KEPT_FOR).delete()


def remove_worker(id: UUID) -> None:
    """Deletes the row of a worker that has ended."""
    with writing():
        Worker.objects.filter(id=id).delete()
