"""Proposals and results as agents register them, and exceptions as data."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from historyapp.core.actions import (
    ActionError,
    ActionInterrupted,
    ActionProposal,
    ActionResult,
    ActionSuccess,
    as_tool_result,
    from_exception,
    output_of,
    with_raw_message_fields,
)
from historyapp.core.entries import ModelOutput, Thoughts, ToolCall, ToolResult, UseTool
from historyapp.core.json import dump_json

RESULT: TypeAdapter[Any] = TypeAdapter(ActionResult)
RAW = {
    "content": "Let me look.",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls"}}],
}


def test_the_schema_for_models_leaves_the_raw_message_out() -> None:
    schema = ActionProposal.model_json_schema()
    assert set(schema["properties"]) == {"thoughts", "use_tool"}
    assert schema["required"] == ["use_tool"]


def test_the_raw_message_is_kept_unchanged() -> None:
    proposal = ActionProposal(use_tool=UseTool(name="ls"), raw_message=RAW)
    output = output_of(proposal)
    assert output.raw_message == RAW
    assert output.text == "Let me look."
    assert output.tool_calls == (ToolCall(id="c1", name="ls", arguments={}),)


def test_an_invalid_raw_message_loses_no_other_field() -> None:
    for raw in (
        {},
        {"tool_calls": None},
        {"tool_calls": "x"},
        {"tool_calls": [1, {"id": 5}]},
        {"content": [1]},
    ):
        output = output_of(ActionProposal(use_tool=UseTool(name="ls"), raw_message=raw))
        assert (output.tool_calls, output.text, output.raw_message) == ((), "", raw)


def test_thoughts_can_be_missing_text_or_structured() -> None:
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


def test_fields_in_the_call_are_not_overridden() -> None:
    output = ModelOutput(text="mine", tool_calls=(ToolCall(id="x", name="mine"),), raw_message=RAW)
    assert with_raw_message_fields(output) == output


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"status": "success", "outputs": {"a": 1}}, ActionSuccess),
        ({"status": "success"}, ActionSuccess),
        ({"status": "error", "reason": "no"}, ActionError),
        ({"status": "interrupted_by_human", "feedback": "stop"}, ActionInterrupted),
    ],
)
def test_the_status_distinguishes_the_three_results(data: dict[str, Any], kind: type) -> None:
    assert type(RESULT.validate_python(data)) is kind


@pytest.mark.parametrize(
    "data",
    [
        {"status": "maybe"},
        {"outputs": 1},
        {"status": "error"},
        {"status": "interrupted_by_human", "outputs": 1},
        {"status": "success", "reason": "x"},
    ],
)
def test_a_result_with_another_status_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RESULT.validate_python(data)


class _Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class _Without(Exception):
    args = None  # type: ignore[assignment]


class _Failing(Exception):
    @property
    def args(self) -> Any:  # type: ignore[override]
        raise RuntimeError


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


class _Odd:
    def __repr__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    "exception",
    [
        ValueError("x"),
        KeyError(),
        OSError(2, "gone", "f.txt"),
        _Broken(_Odd()),
        SystemExit(3),
        Exception(b"\xff"),
        Exception(nested(500)),
        _Without(),
        _Failing(),
    ],
)
def test_every_exception_becomes_data(exception: BaseException) -> None:
    details = from_exception(exception)
    assert details.exception_type == type(exception).__name__
    dump_json(details.model_dump())
    result = as_tool_result(ActionError(reason="it broke", error=details), "run")
    assert ToolResult.model_validate(result.model_dump()) == result


@given(st.lists(st.one_of(st.text(), st.integers(), st.floats(), st.binary(), st.none(), st.builds(object))))
def test_an_exception_s_arguments_can_be_anything(arguments: list[Any]) -> None:
    details = from_exception(RuntimeError(*arguments))
    assert len(details.args) == len(arguments)
    dump_json(details.model_dump())


def test_an_exception_is_shown_as_python_prints_it() -> None:
    details = from_exception(ValueError("bad", 3))
    assert (details.message, details.repr) == ("('bad', 3)", "ValueError('bad', 3)")
    assert details.args == ["bad", 3]
