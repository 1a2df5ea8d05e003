"""One response gives one output, however it was split into pieces."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from historyapp.core.entries import dump_body, load_body
from historyapp.core.json import dump_json
from historyapp.llm.completions import Completion, collect
from historyapp.llm.deltas import (
    FinishedDelta,
    ModelOutputDelta,
    RestartedDelta,
    StartedDelta,
    TextDelta,
    ToolCallDelta,
)
from tests.llm.answers import WIRES, answers, collected, resized, streamed
from tests.llm.loopback import Answer

DELTA: TypeAdapter[ModelOutputDelta] = TypeAdapter(ModelOutputDelta)
STARTED = StartedDelta(provider="openai", model="m", id="a1")
FINISHED = FinishedDelta(reason="stop", provider_reason="stop", message={"role": "assistant"})

each_api = pytest.mark.parametrize("provider", WIRES)


@each_api
@given(st.data())
def test_a_completion_does_not_depend_on_its_pieces(provider: str, data: st.DataObject) -> None:
    first, second = data.draw(answers().flatmap(resized))
    assert collected(provider, first) == collected(provider, second)


@each_api
@given(answers())
def test_an_output_survives_storage(provider: str, answer: Answer) -> None:
    output = collected(provider, answer).output
    assert load_body("model_output", dump_body(output)) == output
    assert dump_json(dump_body(output))


@each_api
@given(answers())
def test_text_thoughts_and_calls_are_those_of_the_response(provider: str, answer: Answer) -> None:
    output = collected(provider, answer).output
    spoken = answer.text if provider == "anthropic" else answer.text or answer.refusal
    assert (output.text, output.thoughts) == (spoken, answer.thoughts or None)
    assert [(call.id, call.name, dump_json(call.arguments)) for call in output.tool_calls] == [
        (call.id, call.name, dump_json(json.loads(call.arguments))) for call in answer.calls
    ]


@each_api
@given(answers())
def test_deltas_survive_json(provider: str, answer: Answer) -> None:
    for delta in streamed(provider, answer):
        assert DELTA.validate_python(delta.model_dump()) == delta


@each_api
@given(st.data())
def test_deltas_before_a_restart_are_dropped(provider: str, data: st.DataObject) -> None:
    first, second = data.draw(answers()), data.draw(answers())
    deltas = streamed(provider, first)
    broken = deltas[: data.draw(st.integers(0, len(deltas)))]
    again = RestartedDelta(attempt=2, reason="cut")
    assert collect([*broken, again, *streamed(provider, second)]) == collected(provider, second)


@pytest.mark.parametrize("deltas", [[], [STARTED], [FINISHED], [STARTED, TextDelta(text="a")]])
def test_an_incomplete_response_is_an_error(deltas: list[ModelOutputDelta]) -> None:
    with pytest.raises(ValueError, match="not complete"):
        collect(deltas)


def of_calls(*calls: ToolCallDelta) -> Completion:
    return collect([STARTED, *calls, FINISHED])


def test_interleaved_tool_calls_are_distinguished() -> None:
    completion = of_calls(
        ToolCallDelta(index=1, id="b", name="g", arguments='{"y"'),
        ToolCallDelta(index=0, id="a", name="f", arguments='{"x"'),
        ToolCallDelta(index=1, arguments=": 2}"),
        ToolCallDelta(index=0, arguments=": 1}"),
    )
    assert [(call.id, call.name, call.arguments) for call in completion.output.tool_calls] == [
        ("a", "f", {"x": 1}),
        ("b", "g", {"y": 2}),
    ]


def test_repeated_ids_and_names_count_once() -> None:
    first, second = ToolCallDelta(index=0, id="a", name="f"), ToolCallDelta(index=0, id="chunk-2", name="f")
    (call,) = of_calls(first, second).output.tool_calls
    assert (call.id, call.name, call.arguments) == ("a", "f", {})


def test_tool_calls_without_ids_get_different_ones() -> None:
    calls = of_calls(ToolCallDelta(index=0, name="f"), ToolCallDelta(index=1, name="f")).output.tool_calls
    assert [call.id for call in calls] == ["call_a1_0", "call_a1_1"]


@pytest.mark.parametrize(
    "written",
    ['{"a": NaN}', '{"a": 1e999}', "null", "[1]", '{"a"', '{"a":' * 300 + "1" + "}" * 300, "\ud800"],
)
def test_arguments_that_are_not_a_storable_object_stay_text(written: str) -> None:
    (call,) = of_calls(ToolCallDelta(index=0, id="a", name="f", arguments=written)).output.tool_calls
    assert call.arguments == written
