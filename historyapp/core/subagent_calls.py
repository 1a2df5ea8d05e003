"""Finds the tool call that started a sub-agent's session."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from historyapp.core.call_subjects import AGENTS, TASKS
from historyapp.core.entries import Entry, ModelOutput, ToolResults
from historyapp.core.results import result_text

_MIN_ID = 6
"""A shorter id in a result's text may be something else."""


class SubagentCall(NamedTuple):
    """A step that may have started sub-agents."""

    position: int
    """The position of its output."""
    ids: frozenset[str]
    """The ids of its calls, and of the agents that the metadata of its results names."""
    tasks: frozenset[str]
    results: str
    """The texts of its results."""


class SubagentTraits(NamedTuple):
    """The known facts of a sub-agent's session."""

    ids: Sequence[str]
    """Ids of the call that started it, of the agent and of the session, the most reliable first,
    without empty ids."""
    tasks: Sequence[str]
    """Its first inputs."""


def subagent_call(entries: Iterable[Entry]) -> SubagentCall | None:
    """The calls of one step that may start sub-agents; None if no call does.

    Args:
        entries: its output and its results.
    """
    position, ids, tasks, results = 0, set[str](), set[str](), list[str]()
    for entry in entries:
        body = entry.body
        if isinstance(body, ModelOutput):
            position = entry.position
            calls = [(tool_call.id, tool_call.name, tool_call.arguments) for tool_call in body.tool_calls]
            if body.use_tool and not calls:
                calls = [("", body.use_tool.name, body.use_tool.arguments)]
            for id, name, arguments in calls:
                names_agent = isinstance(arguments, Mapping) and "subagent_type" in arguments
                if names_agent or name.lower() in AGENTS:
                    ids.add(id)
                    tasks.update(_tasks(arguments))
        elif isinstance(body, ToolResults):
            ids.add(str(entry.metadata.get("agent_id") or ""))
            results += [result_text(result) for result in body.results]
    ids.discard("")
    if not position or not (tasks or ids):
        return None
    return SubagentCall(position, frozenset(ids), frozenset(tasks), "\n".join(results))


def position_of_call(traits: SubagentTraits, calls: Sequence[SubagentCall]) -> int | None:
    """The position of the output whose call started a sub-agent, or None."""
    for id in traits.ids:
        for step in calls:
            if id in step.ids:
                return step.position
    for id in traits.ids:
        for step in calls:
            if len(id) >= _MIN_ID and id in step.results:
                return step.position
    return next((step.position for step in calls if not step.tasks.isdisjoint(traits.tasks)), None)


def _tasks(arguments: Any) -> Iterable[str]:
    values = (arguments.get(key) for key in TASKS) if isinstance(arguments, Mapping) else (arguments,)
    return [value.strip() for value in values if isinstance(value, str) and value.strip()]
