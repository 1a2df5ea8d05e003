"""Names the commands for which steps wait, in the rows of the steps.

With the first output of a command that still runs, Codex returns an id. Later calls wait for more output and
name only this id, see :mod:`historyapp.core.overview.running`.
"""

from collections.abc import Mapping
from typing import Any

from historyapp.core.entries import ToolResults
from historyapp.core.overview.running import (
    WAIT,
    add_running,
    process_of,
    running_as,
    sends_input,
    wait_for,
)

MAX_NAMED = 8
"""The maximum number of running commands that a session's tail remembers, the newest. They are stored with
each append."""


def awaited_process(arguments: Any) -> str:
    """The id of the running command for which a call waits, or empty."""
    return "" if sends_input(arguments) else process_of(arguments)


def wait_target(target: str, process: str, running: Mapping[str, str]) -> str:
    """What a step's first call is about: its own target, or the command for which it waits.

    >>> wait_target("", "session 5", {"session 5": "make test"})
    'wait for make test'
    """
    command = running.get(process) if process and not target else None
    return wait_for(command) if command else target


def running_after(
    running: Mapping[str, str], kind: str, target: str, calls: int, body: ToolResults
) -> Mapping[str, str]:
    """The running commands by their ids, after the results of a step. Only steps with one call are read.

    Args:
        kind: the kind of the step's first call.
        target: what it is about: its command, or the command for which it waits.
        calls: the number of the step's calls.
    """
    if kind != "shell" or not target or calls != 1 or len(body.results) != 1:
        return running
    process = running_as(_first_text(body.results[0].outputs))
    if not process or target.startswith(WAIT):  # a call that waited started no command
        return running
    after = dict(running)
    add_running(after, process, target, MAX_NAMED)
    return after


def _first_text(outputs: Any) -> str:
    first = outputs[0] if isinstance(outputs, list) and outputs else outputs
    text = first.get("text") if isinstance(first, Mapping) else first
    return text if isinstance(text, str) else ""
