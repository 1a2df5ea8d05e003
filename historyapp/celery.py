"""The Celery application: Redis as the broker with ``REDIS_URL``, otherwise a table of the database."""

import os

from celery import Celery
from django.conf import settings
from kombu.compression import encoders, register
from kombu.transport import TRANSPORT_ALIASES

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "historyapp.settings")

app = Celery("playhead")

TRANSPORT_ALIASES["database"] = "historyapp.broker:Transport"


def _refuse_compressed(body: bytes) -> bytes:
    raise ValueError("Messages of Playhead are not compressed.")


# Kombu would read a compressed message of any size, before the worker knows its task.
for compression in encoders():
    register(_refuse_compressed, _refuse_compressed, compression)

# The work is stored in the database, so results are not kept, and the sweep replaces lost messages.
# The broker in the database does not retry, because it has already waited for a locked database.
app.conf.update(
    broker_url=settings.REDIS_URL or "database://localhost",
    broker_transport_options={"socket_timeout": 5, "socket_connect_timeout": 2} if settings.REDIS_URL else {},
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
    task_default_queue="playhead",
    task_publish_retry_policy={
        "max_retries": 1 if settings.REDIS_URL else 0,
        "interval_start": 0.1,
        "interval_max": 0.1,
    },
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_enable_remote_control=False,
    timezone="UTC",
)
