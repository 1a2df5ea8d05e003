"""Finds the tool call that started a sub-agent's session.

A session may have many steps with long texts, so nothing that is kept of a step grows with its texts.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from historyapp.core.call_subjects import AGENTS, TASKS
from historyapp.core.entries import Entry, ModelOutput, ToolResults
from historyapp.core.results import result_text

_MIN_ID = 6
"""A shorter id in a result's text may be something else."""
_MAX_ID = 500
"""Longer ids are ignored."""
_MAX_SEARCHED = 50_000
"""Characters at the beginning and at the end of a result's text in which ids are searched for."""
MAX_COMPARED = 2 * 10**9
"""The maximum number of characters that one search compares, each once for each id. Takes about half
a second."""


class SubagentCall(NamedTuple):
    """A step that may have started sub-agents."""

    position: int
    """The position of its output."""
    ids: frozenset[str]
    """The ids of its calls, and of the agents that the metadata of its results names."""
    tasks: frozenset[bytes]
    """Their digests, see :func:`task_digest`."""
    named: frozenset[str] = frozenset()
    """The ids of agents in the texts of its results."""


class SubagentTraits(NamedTuple):
    """The known facts of a sub-agent's session."""

    ids: Sequence[str]
    """Ids of the call that started it, of the agent and of the session, the most reliable first,
    without empty ids."""
    tasks: Collection[bytes]
    """The digests of its first inputs."""


def task_digest(text: str) -> bytes:
    """A short value that is equal for equal tasks."""
    return sha256(text.strip().encode("utf-8", "surrogatepass")).digest()


class AgentIds:
    """Ids of agents that are searched for in the texts of a session's results, oldest first."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = {id for id in ids if len(id) >= _MIN_ID}
        self._left = MAX_COMPARED

    @property
    def are_left(self) -> bool:
        """Whether to search for them in further texts. False once :data:`MAX_COMPARED` is reached."""
        return bool(self._ids) and self._left > 0

    def found_in(self, text: str) -> set[str]:
        """The ids in a text that no earlier text has."""
        self._left -= len(text) * len(self._ids)
        found = {id for id in self._ids if id in text}
        self._ids -= found
        return found


class StartingCalls:
    """The steps of a session that may have started sub-agents, oldest first."""

    def __init__(self, calls: Iterable[SubagentCall]) -> None:
        self._by_id, self._by_name = dict[str, int](), dict[str, int]()
        self._by_task = dict[bytes, int]()
        for call in calls:
            for id in call.ids:
                self._by_id.setdefault(id, call.position)
            for name in call.named:
                self._by_name.setdefault(name, call.position)
            for task in call.tasks:
                self._by_task.setdefault(task, call.position)

    def position_of(self, traits: SubagentTraits) -> int | None:
        """The position of the output whose call started a sub-agent, or None."""
        for positions in (self._by_id, self._by_name):
            for id in traits.ids:
                if id in positions:
                    return positions[id]
        return min((self._by_task[task] for task in traits.tasks if task in self._by_task), default=None)


def subagent_call(entries: Iterable[Entry], agents: AgentIds | None = None) -> SubagentCall | None:
    """The calls of one step that may start sub-agents; None if no call does.

    Args:
        entries: its output and its results.
        agents: the ids to search for in the texts of its results.
    """
    position, ids, tasks, named = 0, set[str](), set[bytes](), set[str]()
    agents = agents or AgentIds(())
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
                    tasks.update(map(task_digest, _tasks(arguments)))
        elif isinstance(body, ToolResults):
            ids.add(str(entry.metadata.get("agent_id") or ""))
            for result in body.results if agents.are_left else ():
                text = result_text(result)
                if len(text) > 2 * _MAX_SEARCHED:
                    text = f"{text[:_MAX_SEARCHED]}\n{text[-_MAX_SEARCHED:]}"
                named |= agents.found_in(text)
    ids = {id for id in ids if 0 < len(id) <= _MAX_ID}
    if not position or not (tasks or ids):
        return None
    return SubagentCall(position, frozenset(ids), frozenset(tasks), frozenset(named))


def _tasks(arguments: Any) -> Iterable[str]:
    values = (arguments.get(key) for key in TASKS) if isinstance(arguments, Mapping) else (arguments,)
    return [value.strip() for value in values if isinstance(value, str) and value.strip()]
