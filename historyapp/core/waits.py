"""Names the commands for which steps wait, in the rows of the steps.

With the first output of a command that still runs, Codex returns an id. Later calls wait for more output and
name only this id, see :mod:`historyapp.core.overview.running`.
"""

from collections.abc import Mapping
from typing import Any

from historyapp.core.entries import ToolResults
from historyapp.core.overview.running import process_of, running_as, sends_input
from historyapp.core.text import preview

WAIT = "wait for "
MAX_NAMED = 8
"""The maximum number of running commands that a session's tail remembers, the newest. They are stored with
each append."""
_HEAD = 400
"""Characters of a result in which the id is looked for."""


def waited_for(arguments: Any) -> str:
    """The id of the running command for which a call waits, or empty."""
    return "" if sends_input(arguments) else process_of(arguments)


def wait_target(target: str, process: str, running: Mapping[str, str]) -> str:
    """What a step's first call is about: its own target, or the command for which it waits.

    >>> wait_target("", "session 5", {"session 5": "make test"})
    'wait for make test'
    """
    command = running.get(process) if process and not target else None
    return preview(f"{WAIT}{command}") if command else target


def running_after(
    running: Mapping[str, str], kind: str, target: str, calls: int, body: ToolResults
) -> Mapping[str, str]:
    """The running commands by their ids, after the results of a step. Only steps with one call are read.

    Args:
        kind: the kind of the step's call; ``target``: its command; ``calls``: the number of its calls.
    """
    if kind != "shell" or not target or calls != 1 or len(body.results) != 1:
        return running
    text = _beginning(body.results[0].outputs)
    process = running_as(text) if "running with" in text else ""
    if not process or target == preview(f"{WAIT}{running.get(process, '')}"):
        return running
    others = [item for item in running.items() if item[0] != process]
    return {**dict(others[-MAX_NAMED + 1 :]), process: target}


def _beginning(outputs: Any) -> str:
    first = outputs[0] if isinstance(outputs, list) and outputs else outputs
    text = first.get("text") if isinstance(first, Mapping) else first
    return text[:_HEAD] if isinstance(text, str) else ""
