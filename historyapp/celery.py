"""The Celery application: Redis as the broker with ``REDIS_URL``, else a folder that one machine shares."""

import os
from typing import Any

from celery import Celery
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "historyapp.settings")

app = Celery("playhead")

_MESSAGES = settings.PLAYHEAD_HOME / "queue" / "messages"
_CONTROL = settings.PLAYHEAD_HOME / "queue" / "control"


def make_folders() -> None:
    """Makes the folders of the queue, where it is one of folders and they are missing."""
    if not settings.REDIS_URL:
        for folder in (_MESSAGES, _CONTROL):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _broker() -> dict[str, Any]:
    if settings.REDIS_URL:
        seconds = {"socket_timeout": 5, "socket_connect_timeout": 2}
        return {"broker_url": settings.REDIS_URL, "broker_transport_options": seconds}
    options = {
        "data_folder_in": str(_MESSAGES),
        "data_folder_out": str(_MESSAGES),
        "control_folder": str(_CONTROL),
        "polling_interval": 0.2,
    }
    return {"broker_url": "filesystem://localhost", "broker_transport_options": options}


make_folders()
# The database knows what is to be done: results are not kept, and a lost message is noticed by the sweep.
app.conf.update(
    **_broker(),
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
    task_default_queue="playhead",
    task_publish_retry_policy={"max_retries": 1, "interval_start": 0.1, "interval_max": 0.1},
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_enable_remote_control=False,
    timezone="UTC",
)
