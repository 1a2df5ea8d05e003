"""Names the commands for which calls wait.

Codex returns an id with the first output of a command that still runs. Later calls wait for more output and
name only this id.
"""

import re
from collections.abc import Mapping
from typing import Any

from historyapp.core.text import preview

_RUNS_ON = re.compile(r"^(?:Process|Script) running with (session|cell) ID ([0-9]{1,12})$", re.MULTILINE)
_HEAD = 400
"""Characters of a result before the command's output."""
MAX_RUNNING = 64
"""The maximum number of commands whose ids the figures of a run remember, the newest."""
WAIT = "wait for "
"""The beginning of the target of a call that waits, before the command."""


def running_as(text: str) -> str:
    """The id under which the command of a result still runs, or empty.

    >>> running_as("Chunk ID: 1\\nWall time: 1.0 seconds\\nProcess running with session ID 5\\nOutput:\\n")
    'session 5'
    """
    match = _RUNS_ON.search(text[:_HEAD])
    return f"{match[1]} {match[2]}" if match else ""


def process_of(arguments: Any) -> str:
    """The id of the running command that a call names, or empty.

    >>> process_of({"session_id": 5, "chars": ""}), process_of({"cmd": "ls"})
    ('session 5', '')
    """
    if not isinstance(arguments, Mapping):
        return ""
    for name in ("session_id", "cell_id"):
        id = arguments.get(name)
        if isinstance(id, (int, str)) and str(id).isdecimal():
            return f"{name.removesuffix('_id')} {id}"
    return ""


def sends_input(arguments: Any) -> bool:
    """Whether a call writes to the running command that it names, for example an answer or Ctrl C."""
    return isinstance(arguments, Mapping) and bool(arguments.get("chars"))


def wait_for(command: str) -> str:
    """What a call that waits for a command is about, in at most 200 characters."""
    return preview(f"{WAIT}{command}")


def add_running(running: dict[str, str], id: str, command: str, limit: int = MAX_RUNNING) -> None:
    """Remembers a command that still runs, of more than ``limit`` the newest. Ids may be used again."""
    running.pop(id, None)
    running[id] = command
    if len(running) > limit:
        del running[next(iter(running))]
