"""A sub-agent is traced to the call that started it: by ids first, then by its task."""

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from historyapp.core import subagent_calls
from historyapp.core.entries import Body, Entry, ModelOutput, ToolCall, ToolResult, ToolResults, UseTool
from historyapp.core.subagent_calls import (
    AgentIds,
    StartingCalls,
    SubagentTraits,
    subagent_call,
    task_digest,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def entry(position: int, body: Body, **metadata: Any) -> Entry:
    return Entry(position=position, created_at=NOW, body=body, tokens=0, metadata=metadata)


def started(position: int, id: str, task: str, result: str = "done", **metadata: Any) -> list[Entry]:
    output = ModelOutput(tool_calls=(ToolCall(id=id, name="Task", arguments={"prompt": task}),))
    tool_result = ToolResult(tool_call_id=id, status="success", outputs=result)
    return [entry(position, output), entry(position + 1, ToolResults(results=(tool_result,)), **metadata)]


AGENTS = AgentIds(["t1", "a1b2c3d", "019f-77aa", "other", "done"])
CALLS = [
    call
    for call in (
        subagent_call(started(3, "t1", "look"), AGENTS),
        subagent_call(started(7, "t2", "look", agent_id="a1b2c3d"), AGENTS),
        subagent_call(started(9, "t3", "mend it", '{"agent_id": "019f-77aa"}'), AGENTS),
    )
    if call
]


@pytest.mark.parametrize(
    ("ids", "task", "position"),
    [
        (["t1", "a1b2c3d"], "", 3),
        (["a1b2c3d"], "look", 7),
        (["019f-77aa"], "", 9),
        (["other"], "look", 3),
        ([], "mend it", 9),
        (["done"], "", None),
        ([], "", None),
    ],
)
def test_the_most_specific_reference_to_a_call_wins(ids: list[str], task: str, position: int | None) -> None:
    tasks = {task_digest(text) for text in ("<environment/>", task) if text}
    assert StartingCalls(CALLS).position_of(SubagentTraits(ids, tasks)) == position


def test_nothing_that_is_kept_of_a_step_grows_with_its_texts() -> None:
    """A session may have many steps that start sub-agents, each with results of many MB."""
    text = f"{'a' * 60_000}agent-in-the-middle{'b' * 60_000}agent-at-the-end"
    agents = AgentIds(["agent-at-the-end", "agent-in-the-middle"])
    found = subagent_call(started(3, "t" * 1000, text, text), agents)
    assert found is not None
    assert found.named == {"agent-at-the-end"}
    assert len(pickle.dumps(found)) < 1000
    assert StartingCalls([found]).position_of(SubagentTraits((), {task_digest(text)})) == 3


def test_ids_are_searched_for_in_a_limited_number_of_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subagent_calls, "MAX_COMPARED", 100_000)
    ids = [f"agent-{number}" for number in range(10)]
    agents = AgentIds(ids)
    assert agents.found_in(ids[0]) == {ids[0]}
    assert agents.found_in(ids[0]) == set(), "the oldest result counts"
    for place in (1, 2):
        found = subagent_call(started(3, "t", "look", ids[place]), agents)
        assert found is not None
        assert found.named == ({ids[1]} if place == 1 else set()), "too many characters have been compared"
        agents.found_in("x" * 20_000)


def test_calls_of_other_tools_start_no_sub_agent() -> None:
    output = ModelOutput(tool_calls=(ToolCall(id="t", name="read", arguments={"prompt": "look"}),))
    tool_result = ToolResult(tool_call_id="t", status="success", outputs="019f-77aa")
    assert subagent_call([entry(1, output), entry(2, ToolResults(results=(tool_result,)))]) is None


def test_a_call_is_found_by_its_id_alone_or_by_its_task_alone() -> None:
    no_task = ToolCall(id="t", name="start", arguments={"subagent_type": "explore"})
    call_in_log = subagent_call([entry(1, ModelOutput(tool_calls=(no_task,)))])
    assert call_in_log is not None
    assert call_in_log.ids == {"t"}
    by_name = ModelOutput(use_tool=UseTool(name="delegate", arguments={"task": " look "}))
    call_in_log = subagent_call([entry(1, by_name)])
    assert call_in_log is not None
    assert call_in_log.tasks == {task_digest("look")}
