"""The time in which a step waited for a person to approve its tool calls.

Codex records that a call asks for approval, and how long the tool itself took. The rest of the time until the
result is the person's, and all of it if the person rejected the call. A step is left out if one of its
results does not report its time, because parallel calls may be recorded when the last of them has ended.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from historyapp.core.dates import milliseconds_of
from historyapp.core.entries import Entry, ModelOutput, ToolResult, ToolResults
from historyapp.core.results import returned_text
from historyapp.core.shell_output import reported_seconds

_REJECTED = re.compile(r"\brejected by (?:the )?user\b", re.IGNORECASE)
_MAX_REJECTION = 1000
"""Characters in which a result says that a person rejected its call."""


def asks_for_approval(arguments: Any) -> bool:
    """Whether a call of Codex asks a person to run it without the sandbox."""
    if not isinstance(arguments, Mapping):
        return False
    permissions = arguments.get("sandbox_permissions")
    return permissions == "require_escalated" or arguments.get("with_escalated_permissions") is True


def approval_waits(entries: Sequence[Entry]) -> dict[int, int]:
    """The waits for approval in a step in milliseconds, by the positions of the results that ended them.

    Args:
        entries: the step's output and the live entries after it, up to the next output.
    """
    output = entries[0].body
    assert isinstance(output, ModelOutput)
    asking = {call.id for call in output.tool_calls if asks_for_approval(call.arguments)}
    if not asking:
        return {}
    start = previous = milliseconds_of(entries[0].created_at)
    waits: dict[int, int] = {}
    longest = 0.0
    for entry in entries[1:]:
        if not isinstance(entry.body, ToolResults):
            continue
        times = _reported_milliseconds(entry.body, entry.metadata)
        if not times:
            return {}
        moment = max(previous, milliseconds_of(entry.created_at))
        if any(result.tool_call_id in asking for result in entry.body.results):
            waits[entry.position] = max(0, moment - previous - round(sum(times)))
        longest, previous = max(longest, *times), moment
    left = max(0, previous - start - round(longest))  # the waits while no tool ran
    for position, wait in waits.items():
        waits[position] = min(wait, left)
        left -= waits[position]
    return {position: wait for position, wait in waits.items() if wait}


def _reported_milliseconds(body: ToolResults, metadata: Mapping[str, Any]) -> list[float]:
    """How long the tools took, by their results. Empty if one of them does not say it."""
    times = [_reported_seconds(result) for result in body.results]
    if len(times) == 1 and times[0] is None:
        seconds = metadata.get("duration_seconds")  # the importer has taken it from around the output
        times = [seconds if isinstance(seconds, (int, float)) and 0 <= seconds < 1e9 else None]
    known = [seconds * 1000 for seconds in times if seconds is not None]
    return known if len(known) == len(times) else []


def _reported_seconds(result: ToolResult) -> float | None:
    """How long a tool took; 0 if a person rejected the call, because the tool never ran. A call that a person
    aborted may have run.
    """
    text = returned_text(result)
    if result.status == "interrupted_by_human" and _REJECTED.search(text[:_MAX_REJECTION]):
        return 0
    return reported_seconds(text)
