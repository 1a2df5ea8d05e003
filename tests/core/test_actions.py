"""Proposals as agents register them."""

from typing import Any

from pydantic import BaseModel

from historyapp.core.actions import ActionProposal, completed, output_of
from historyapp.core.entries import ModelOutput, Thoughts, ToolCall, UseTool

RAW = {
    "content": "Let me look.",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls"}}],
}


def test_the_schema_for_models_leaves_the_raw_message_out() -> None:
    schema = ActionProposal.model_json_schema()
    assert set(schema["properties"]) == {"thoughts", "use_tool"}
    assert schema["required"] == ["use_tool"]


def test_the_raw_message_is_kept_as_it_is() -> None:
    proposal = ActionProposal(use_tool=UseTool(name="ls"), raw_message=RAW)
    output = output_of(proposal)
    assert output.raw_message == RAW
    assert output.text == "Let me look."
    assert output.tool_calls == (ToolCall(id="c1", name="ls", arguments={}),)


def test_a_raw_message_that_makes_no_sense_costs_nothing() -> None:
    for raw in (
        {},
        {"tool_calls": None},
        {"tool_calls": "x"},
        {"tool_calls": [1, {"id": 5}]},
        {"content": [1]},
    ):
        output = output_of(ActionProposal(use_tool=UseTool(name="ls"), raw_message=raw))
        assert (output.tool_calls, output.text, output.raw_message) == ((), "", raw)


def test_thoughts_may_be_missing_text_or_structured() -> None:
    for thoughts in (None, "hm", {"summary": "hm", "plan": ["a"]}):
        output = output_of(ActionProposal.model_validate({"thoughts": thoughts, "use_tool": {"name": "ls"}}))
        assert output.model_dump(exclude_none=True).get("thoughts") == thoughts


class Plan(BaseModel):
    """An agent's own model of thoughts."""

    observation: str
    steps: list[str]


def test_thoughts_in_a_model_of_the_agents_own_are_kept() -> None:
    plan: Any = Plan(observation="two files", steps=["read"])
    proposal = ActionProposal(thoughts=plan, use_tool=UseTool(name="ls"))
    assert proposal.thoughts == Thoughts.model_validate({"observation": "two files", "steps": ["read"]})
    assert output_of(proposal).thoughts_text == 'observation: two files\nsteps: ["read"]'


def test_what_is_given_is_not_overridden() -> None:
    given = ModelOutput(text="mine", tool_calls=(ToolCall(id="x", name="mine"),), raw_message=RAW)
    assert completed(given) == given
