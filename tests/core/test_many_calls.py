"""Pairing stays linear: transcripts may hold any number of calls and results in one step."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from time import process_time
from typing import Any

import pytest
from pydantic import ValidationError

from historyapp.core import conversation, entries
from historyapp.core.budget import RequestMeter
from historyapp.core.conversation import calls_text, late_results
from historyapp.core.entries import ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.core.episodes import Episode, group_episodes
from historyapp.core.formats import FORMATS
from historyapp.core.output_facts import output_facts
from historyapp.core.policies.clipping import clipped_step
from historyapp.core.text import preview
from historyapp.core.tokens import count_tokens
from tests.core.entries import calls, session

MANY = 10_000
SECONDS = 5
"""Comparing each with each other one takes over a minute."""


def step_of(ids: Sequence[str | None]) -> Episode:
    results = [ToolResult(tool_call_id=id, status="success", outputs=n) for n, id in enumerate(ids)]
    output = calls(*(f"ä{n}" for n in range(MANY)))
    return next(group_episodes(session(output, ToolResults(results=tuple(results)))))


@pytest.mark.parametrize("named", [True, False])
def test_results_of_many_calls_are_paired_and_written_in_linear_time(named: bool) -> None:
    started = process_time()
    step = step_of([f"ä{n}" if named else None for n in range(MANY)])
    assert step.status == "success"
    assert [result.outputs for result in step.turn.results] == list(range(MANY))
    assert step.result
    assert str(step.result.outputs).endswith(f"look ({MANY} of {MANY}): {MANY - 1}")
    format = FORMATS["openai_chat"]
    assert len(list(format.joined([format.write(step.turn)]))) == MANY + 1
    assert process_time() - started < SECONDS


def test_many_late_results_are_compared_in_linear_time() -> None:
    started = process_time()
    step = step_of([f"late {n}" for n in range(MANY)] * 2)
    assert len(late_results(step.received)) == 2 * MANY
    assert process_time() - started < SECONDS


def test_exact_repetitions_of_a_late_result_are_shown_once() -> None:
    late = ToolResult(tool_call_id="late", status="success", outputs={"text": "\ud800"})
    received = (ToolResults(results=(late, late)), ToolResults(results=(late,)))
    (step,) = group_episodes(session(calls("a"), *received))
    assert step.late == (late,)


def test_equal_texts_of_many_calls_are_counted_and_clipped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They took half of the time of a context with 1,000 open tool calls."""
    counted = Counter[str]()

    def count(text: str) -> int:
        counted[text] += 1
        return count_tokens(text)

    (step,) = group_episodes(session(calls(*(f"a{n}" for n in range(100)))))
    made = list[ToolResult]()

    def make(**fields: Any) -> ToolResult:
        made.append(ToolResult(**fields))
        return made[-1]

    monkeypatch.setattr(conversation, "ToolResult", make)
    turn, written = clipped_step(step, 900, RequestMeter(count=count))
    assert len(turn.results) == len(step.turn.results) == len(made) == 100
    assert written.tokens == RequestMeter().write(turn).tokens
    assert max(counted.values()) < 10


def test_arguments_that_are_not_shortened_stay_as_they_are() -> None:
    output = ModelOutput(tool_calls=({"id": "a", "name": "read", "arguments": {"path": "b" * 50}},))  # type: ignore[arg-type]
    (step,) = group_episodes(session(output, ToolResults(results=(result("word " * 5_000),))))
    turn, _ = clipped_step(step, 500, RequestMeter())
    assert turn.output.tool_calls[0] is output.tool_calls[0]
    short, _ = clipped_step(step, 12, RequestMeter())
    assert short.output.tool_calls[0] is not output.tool_calls[0]
    assert output.tool_calls[0].arguments == {"path": "b" * 50}


def result(text: str) -> ToolResult:
    return ToolResult(tool_call_id="a", status="success", outputs=text)


def test_only_tool_calls_with_fields_of_providers_are_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(entries, "call_fields")
    own = ModelOutput.model_validate({"tool_calls": [{"id": "a", "name": "read", "arguments": {"b": 1}}]})
    assert own.tool_calls == (ToolCall(id="a", name="read", arguments={"b": 1}),)
    with pytest.raises(ValidationError, match="has no name"):
        ModelOutput.model_validate({"tool_calls": [{"id": "a"}]})
    with pytest.raises(NameError):
        ModelOutput.model_validate({"tool_calls": [{"id": "a", "type": "function", "function": {}}]})


def test_the_turn_of_a_changed_step_is_made_again() -> None:
    (step,) = group_episodes(session(calls("a", "b")))
    assert step.turn is step.turn
    assert replace(step, output=calls("a")).turn.results == step.turn.results[:1]


def test_the_preview_of_many_calls_writes_only_their_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    output = calls(*map(str, range(200)))
    expected, written = preview(calls_text(output)), list[str]()

    def record(name: str, arguments: object) -> str:
        written.append(name)
        return name

    monkeypatch.setattr(conversation, "call_text", record)
    assert output_facts(output, tokens=1).call_preview == expected
    assert written == []
