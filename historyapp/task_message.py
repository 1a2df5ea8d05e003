"""Messages for the queue in the database, in Celery's format.

Without Redis, the web process sends only these messages, so it need not load Celery, which takes 8 MB.
Celery's documentation defines the format ("Message Protocol", version 2); the envelope is kombu's.
"""

import base64
import os
import socket
from uuid import uuid4

from historyapp.core.json import dump_json

_OPTIONS = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


def task_message(task: str, argument: str, queue: str) -> str:
    """The JSON of a message that calls a task with one argument."""
    id = str(uuid4())
    body = dump_json([[argument], {}, _OPTIONS])
    headers: dict[str, object] = {
        "lang": "py",
        "task": task,
        "id": id,
        "shadow": None,
        "eta": None,
        "expires": None,
        "group": None,
        "group_index": None,
        "retries": 0,
        "timelimit": [None, None],
        "root_id": id,
        "parent_id": None,
        "argsrepr": repr((argument,)),
        "kwargsrepr": "{}",
        "origin": f"gen{os.getpid()}@{socket.gethostname()}",
        "ignore_result": None,
        "replaced_task_nesting": 0,
        "stamped_headers": None,
        "stamps": {},
    }
    properties = {
        "correlation_id": id,
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": queue},
        "priority": 0,
        "body_encoding": "base64",
        "delivery_tag": str(uuid4()),
    }
    message = {
        "body": base64.b64encode(body.encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": headers,
        "properties": properties,
    }
    return dump_json(message)
