"""The Responses API, with reasoning that has to come back as it was."""

from typing import Any

import openai
import pytest
from hypothesis import given

from historyapp.llm.completions import Completion, collect
from historyapp.llm.errors import LimitReached, ModelCallError, ProviderFailed, RequestRefused
from historyapp.llm.request import ModelRequest
from historyapp.llm.router import PROVIDERS
from tests.llm.answers import answers, collected, read, whole
from tests.llm.conftest import APIS, Caller
from tests.llm.loopback import Answer, Call, Loopback

API = APIS[1]
CREATED = {"type": "response.created", "response": {"id": "resp_1", "model": "m"}}


def completed(**more: Any) -> dict[str, Any]:
    response = {"id": "resp_1", "model": "m", "status": "completed", **more}
    return {"type": "response.completed", "response": response}


def item(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "id": f"{kind}_1", **more}


def of(*events: dict[str, Any]) -> Completion:
    return collect(read("openai_responses", [CREATED, *events]))


@given(answers())
def test_the_raw_message_is_the_unstreamed_response_without_the_request(answer: Answer) -> None:
    expected = whole("openai_responses", answer)
    message = collected("openai_responses", answer).output.raw_message
    assert message is not None
    assert message == {name: expected[name] for name in message}
    assert message["output"] == expected["output"]
    assert "instructions" not in message


@given(answers())
def test_reasoning_items_are_kept_verbatim(answer: Answer) -> None:
    items = whole("openai_responses", answer)["output"]
    expected = [item for item in items if item["type"] == "reasoning"]
    assert collected("openai_responses", answer).output.reasoning == expected


def test_the_official_client_reads_the_same_items(loopback: Loopback) -> None:
    answer = Answer(text="I look.", thoughts="Where?", opaque="x", calls=(Call("call_1", "f", '{"a": 1}'),))
    loopback.steps.append(answer)
    with openai.OpenAI(max_retries=0).responses.stream(model="gpt-5.3", input="a") as stream:
        output = stream.get_final_response().output
    assert [item.type for item in output] == ["reasoning", "message", "function_call"]
    assert [item.type for item in output] == [
        item["type"] for item in (collected("openai_responses", answer).output.raw_message or {})["output"]
    ]


def test_a_response_is_accepted_in_the_next_input(loopback: Loopback, caller: Caller) -> None:
    call = Call("call_1", "f", '{"a": 1}')
    loopback.steps.append(Answer(text="I look.", thoughts="Where?", opaque="x", calls=(call,)))
    completion = caller.collected(API.request())
    result = {"type": "function_call_output", "call_id": "call_1", "output": "nothing"}
    sent = [*API.context["input"], *(completion.output.raw_message or {})["output"], result]
    assert caller.collected(ModelRequest(API.model, {"input": sent})).output.text == "All is well."
    assert loopback.requests[-1].body["input"] == sent


def test_nothing_is_stored_and_reasoning_is_encrypted() -> None:
    body = PROVIDERS["openai_responses"].body(API.request(), "gpt-5.3")
    assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])


def test_options_override_defaults() -> None:
    assert (
        PROVIDERS["openai_responses"].body(API.request(options={"store": True}), "gpt-5.3")["store"] is True
    )


def test_text_that_was_not_streamed_is_taken_from_the_finished_items() -> None:
    message = item("message", content=[{"type": "output_text", "text": "All at once."}])
    call = item("function_call", call_id="call_1", name="f", arguments='{"a": 1}')
    completion = of(
        {"type": "response.output_item.done", "output_index": 0, "item": message},
        {"type": "response.output_item.done", "output_index": 1, "item": call},
        completed(),
    )
    assert completion.output.text == "All at once."
    assert [call.arguments for call in completion.output.tool_calls] == [{"a": 1}]
    assert (completion.output.raw_message or {})["output"] == [message, call]


def test_items_that_were_not_streamed_are_taken_from_the_whole_response() -> None:
    reasoning = item("reasoning", summary=[], encrypted_content="x")
    message = item("message", content=[{"type": "output_text", "text": "All at once."}])
    output = of(completed(output=[reasoning, message])).output
    assert (output.text, output.reasoning) == ("All at once.", [reasoning])


def test_reasoning_before_a_search_by_openai_stays_in_the_raw_message() -> None:
    thought = [item("reasoning", summary=[], encrypted_content=text) for text in ("search", "tell")]
    message = item("message", content=[{"type": "output_text", "text": "It rains."}])
    sent = [thought[0], item("web_search_call", status="completed"), thought[1], message]
    events = [
        {"type": "response.output_item.done", "output_index": index, "item": each}
        for index, each in enumerate(sent)
    ]
    output = of(*events, completed()).output
    assert (output.text, output.reasoning) == ("It rains.", [thought[1]])
    assert (output.raw_message or {})["output"] == sent


def test_commentary_and_answer_are_two_paragraphs() -> None:
    events: list[dict[str, Any]] = []
    for index, text in enumerate(("First I look.", "Done.")):
        message = item("message", content=[{"type": "output_text", "text": text}])
        events.append({"type": "response.output_item.added", "output_index": index, "item": message})
        events.append({"type": "response.output_text.delta", "output_index": index, "delta": text})
        events.append({"type": "response.output_item.done", "output_index": index, "item": message})
    assert of(*events, completed()).output.text == "First I look.\n\nDone."


def test_parts_of_a_reasoning_summary_are_paragraphs() -> None:
    kind = "response.reasoning_summary"
    completion = of(
        {"type": f"{kind}_part.added", "summary_index": 0},
        {"type": f"{kind}_text.delta", "delta": "One."},
        {"type": f"{kind}_part.added", "summary_index": 1},
        {"type": f"{kind}_text.delta", "delta": "Two."},
        completed(),
    )
    assert completion.output.thoughts == "One.\n\nTwo."


def test_input_of_a_custom_tool_is_kept_as_text() -> None:
    call = item("custom_tool_call", call_id="call_1", name="sql", input="")
    completion = of(
        {"type": "response.output_item.added", "output_index": 0, "item": call},
        {"type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": "SELECT 1"},
        {"type": "response.output_item.done", "output_index": 0, "item": {**call, "input": "SELECT 1"}},
        completed(),
    )
    assert [(call.name, call.arguments) for call in completion.output.tool_calls] == [("sql", "SELECT 1")]


def test_unknown_events_are_ignored() -> None:
    assert of({"type": "response.telepathy.delta", "delta": "…"}, completed()).output.text == ""


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("server_error", ProviderFailed),
        ("rate_limit_exceeded", LimitReached),
        ("invalid_prompt", RequestRefused),
    ],
)
@pytest.mark.parametrize("shape", ["failed", "flat", "nested"])
def test_errors_in_the_stream_are_distinguished(code: str, kind: type[ModelCallError], shape: str) -> None:
    error = {"code": code, "message": "No."}
    events: dict[str, dict[str, Any]] = {
        "failed": {"type": "response.failed", "response": {"id": "resp_1", "error": error}},
        "flat": {"type": "error", **error},
        "nested": {"type": "error", "error": error},
    }
    with pytest.raises(kind) as caught:
        of(events[shape])
    assert caught.value.provider_message == "No."


@pytest.mark.parametrize(
    ("reason", "known"),
    [("max_output_tokens", "length"), ("content_filter", "refusal"), ("steered", "other")],
)
def test_incomplete_answers_say_why(reason: str, known: str) -> None:
    ended = completed(status="incomplete", incomplete_details={"reason": reason})
    finished = of({**ended, "type": "response.incomplete"}).finished
    assert (finished.reason, finished.provider_reason) == (known, reason)
