"""Streams of the official SDKs, read by the agent or not, are recorded as one output."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from historyapp.client import ModelOutput
from historyapp.client.provider_responses import entries_of, open_tool_calls
from historyapp.client.provider_streams import read_async_stream
from tests.llm.loopback import Answer, Broken, Call, Loopback

if TYPE_CHECKING:  # both take a second to import
    from anthropic import Anthropic
    from openai import OpenAI

INPUT: Any = [{"role": "user", "content": "Where is the bug?"}]
READ = Call("call_1", "read_file", '{"path": "a.py", "line": null}')
ANSWER = Answer(text="I look into the file first.", calls=(READ, Call("call_2", "ls")), sizes=(5,))


def openai_client(loopback: Loopback) -> "OpenAI":
    from openai import OpenAI

    return OpenAI(base_url=f"{loopback.url}/v1", api_key="sk-x", max_retries=0)


def anthropic_client(loopback: Loopback) -> "Anthropic":
    from anthropic import Anthropic

    return Anthropic(base_url=loopback.url, api_key="sk-x", max_retries=0)


def responses(loopback: Loopback) -> object:
    return openai_client(loopback).responses.create(model="gpt-5.3", input="Where?")


def responses_events(loopback: Loopback) -> object:
    return list(openai_client(loopback).responses.create(model="gpt-5.3", input="Where?", stream=True))


def responses_unread(loopback: Loopback) -> object:
    return openai_client(loopback).responses.create(model="gpt-5.3", input="Where?", stream=True)


def responses_helper(loopback: Loopback) -> object:
    with openai_client(loopback).responses.stream(model="gpt-5.3", input="Where?") as stream:
        list(stream)
        return stream


def responses_helper_events(loopback: Loopback) -> object:
    with openai_client(loopback).responses.stream(model="gpt-5.3", input="Where?") as stream:
        return list(stream)


def chat_events(loopback: Loopback) -> object:
    options: Any = {"stream": True, "stream_options": {"include_usage": True}}
    return list(openai_client(loopback).chat.completions.create(model="gpt-5.3", messages=INPUT, **options))


def chat_helper(loopback: Loopback) -> object:
    options: Any = {"stream_options": {"include_usage": True}}
    with openai_client(loopback).chat.completions.stream(
        model="gpt-5.3", messages=INPUT, **options
    ) as stream:
        list(stream)
        return stream


def chat_helper_events(loopback: Loopback) -> object:
    options: Any = {"stream_options": {"include_usage": True}}
    with openai_client(loopback).chat.completions.stream(
        model="gpt-5.3", messages=INPUT, **options
    ) as stream:
        return list(stream)


def message_events(loopback: Loopback) -> object:
    client = anthropic_client(loopback)
    return list(client.messages.create(model="claude-opus-5", messages=INPUT, max_tokens=99, stream=True))


def message_helper(loopback: Loopback) -> object:
    client = anthropic_client(loopback)
    with client.messages.stream(model="claude-opus-5", messages=INPUT, max_tokens=99) as stream:
        list(stream)
        return stream


def message_helper_events(loopback: Loopback) -> object:
    client = anthropic_client(loopback)
    with client.messages.stream(model="claude-opus-5", messages=INPUT, max_tokens=99) as stream:
        return list(stream)


RESPONSES = [responses, responses_events, responses_unread, responses_helper, responses_helper_events]
CHAT = [chat_events, chat_helper, chat_helper_events]
MESSAGES = [message_events, message_helper, message_helper_events]
STREAMED = [*RESPONSES[1:], *CHAT, *MESSAGES]
Ask = Callable[[Loopback], object]


@pytest.fixture
def loopback() -> Any:
    with Loopback() as server:
        yield server


@pytest.mark.parametrize("ask", [*RESPONSES, *CHAT, *MESSAGES])
def test_a_response_becomes_one_output_with_its_calls_and_its_usage(loopback: Loopback, ask: Ask) -> None:
    loopback.steps.append(ANSWER)
    (draft,) = drafts = entries_of(ask(loopback))
    assert isinstance(draft.body, ModelOutput)
    assert draft.body.text == ANSWER.text
    assert [call.model_dump() for call in open_tool_calls(drafts)] == [
        {"id": "call_1", "name": "read_file", "arguments": {"path": "a.py", "line": None}},
        {"id": "call_2", "name": "ls", "arguments": {}},
    ]
    assert draft.metadata["usage"]
    assert draft.metadata["model"] in ("gpt-5.3", "claude-opus-5")
    assert draft.metadata["source"]["id"]
    assert draft.metadata["source"]["finish_reason"] in ("tool_calls", "tool_use", "completed")
    anthropic = ask in MESSAGES
    assert draft.metadata["usage_convention"] == ("anthropic" if anthropic else "openai")


@pytest.mark.parametrize("ask", [*RESPONSES, *MESSAGES])
def test_reasoning_is_kept_for_the_next_request(loopback: Loopback, ask: Ask) -> None:
    loopback.steps.append(Answer(text="Here.", thoughts="Where?", opaque="c2lnbmVk", calls=(READ,)))
    (draft,) = entries_of(ask(loopback))
    assert isinstance(draft.body, ModelOutput)
    assert draft.body.thoughts == "Where?"
    (block,) = draft.body.reasoning
    assert "c2lnbmVk" in (block.get("signature"), block.get("encrypted_content"))


@pytest.mark.parametrize("ask", RESPONSES[:2])
def test_a_response_is_recorded_as_the_server_records_its_model_calls(loopback: Loopback, ask: Ask) -> None:
    loopback.steps.append(ANSWER)
    (draft,) = entries_of(ask(loopback))
    assert isinstance(draft.body, ModelOutput)
    assert draft.metadata["provider"] == "openai_responses"
    raw = draft.body.raw_message
    assert raw is not None
    assert [item["type"] for item in raw["output"]] == ["message", "function_call", "function_call"]
    assert "instructions" not in raw


@pytest.mark.parametrize("ask", [*RESPONSES, *CHAT])
def test_the_text_of_a_refusal_is_recorded(loopback: Loopback, ask: Ask) -> None:
    loopback.steps.append(Answer(refusal="I shall not."))
    (draft,) = entries_of(ask(loopback))
    assert isinstance(draft.body, ModelOutput)
    assert draft.body.text == "I shall not."


@pytest.mark.parametrize("ask", STREAMED)
@pytest.mark.parametrize("after", [3, 5])
def test_a_stream_that_broke_off_is_refused(loopback: Loopback, ask: Ask, after: int) -> None:
    loopback.steps.append(Broken("end", after, ANSWER))
    with pytest.raises(ValueError, match="ended before the response was complete"):
        entries_of(ask(loopback))


@pytest.mark.parametrize("status", ["failed", "in_progress", "queued", "cancelled"])
def test_a_response_that_is_not_finished_is_refused(status: str) -> None:
    error = {"code": "server_error", "message": "no luck"} if status == "failed" else None
    words = "is failed: no luck" if error else f"is {status}"
    with pytest.raises(ValueError, match=words):
        entries_of({"object": "response", "status": status, "error": error, "output": []})


@pytest.mark.parametrize("events", [[], [{"type": "ping"}], [{"a": 1}], [{"type": "response.created"}]])
def test_events_that_form_no_response_are_refused(events: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"not the events|ended before"):
        entries_of(events)


def test_fields_that_the_sdk_parsed_are_not_recorded() -> None:
    part = {"type": "output_text", "text": '{"a": 1}', "parsed": {"a": 1}}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "parsed_arguments": {}}

    class Parsed:
        def model_dump(self, **_: Any) -> dict[str, Any]:
            message = {"type": "message", "role": "assistant", "content": [part]}
            return {"object": "response", "status": "completed", "output": [message, call]}

    body = entries_of(Parsed())[0].body
    assert isinstance(body, ModelOutput)
    assert "parsed" not in str(body.raw_message)


def test_the_error_of_a_stream_that_is_not_entered_or_awaited_says_so(loopback: Loopback) -> None:
    with pytest.raises(ValueError, match="Enter it with `with`"):
        entries_of(openai_client(loopback).responses.stream(model="gpt-5.3", input="Where?"))
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=f"{loopback.url}/v1", api_key="sk-x")

    async def unawaited() -> None:
        stream = await client.responses.create(model="gpt-5.3", input="Where?", stream=True)
        with pytest.raises(ValueError, match="AsyncRecorder"):
            entries_of(stream)
        async with client.responses.stream(model="gpt-5.3", input="Where?") as helper:
            with pytest.raises(ValueError, match="AsyncRecorder"):
                entries_of(helper)

    asyncio.run(unawaited())


def test_asynchronous_streams_are_awaited(loopback: Loopback) -> None:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

    openai = AsyncOpenAI(base_url=f"{loopback.url}/v1", api_key="sk-x")
    anthropic = AsyncAnthropic(base_url=loopback.url, api_key="sk-x")

    async def run() -> list[object]:
        raw = await openai.responses.create(model="gpt-5.3", input="Where?", stream=True)
        responses = [await read_async_stream(raw)]
        async with openai.chat.completions.stream(model="gpt-5.3", messages=INPUT) as chat:
            responses.append(await read_async_stream(chat))
        async with anthropic.messages.stream(model="claude-opus-5", messages=INPUT, max_tokens=99) as message:
            responses.append(await read_async_stream(message))
        loopback.steps.append(Broken("end", 4, ANSWER))
        async with anthropic.messages.stream(model="claude-opus-5", messages=INPUT, max_tokens=99) as cut:
            with pytest.raises(ValueError, match="ended before"):
                await read_async_stream(cut)
        return responses

    loopback.steps.extend([ANSWER] * 3)
    for response in asyncio.run(run()):
        (draft,) = drafts = entries_of(response)
        assert isinstance(draft.body, ModelOutput)
        assert (draft.body.text, len(open_tool_calls(drafts))) == (ANSWER.text, 2)
