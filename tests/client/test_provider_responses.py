"""Responses of the official SDKs become entries that keep all that the next request needs."""

from typing import Any

import pytest

from historyapp.client import ModelOutput
from historyapp.client.provider_responses import entries_of, open_tool_calls
from tests.llm.loopback import Answer, Call, Loopback

MESSAGES: Any = [{"role": "user", "content": "Where is the bug?"}]
READ = Call("call_1", "read_file", '{"path": "a.py"}')


def from_openai(loopback: Loopback) -> object:
    from openai import OpenAI  # takes a second, in every process that collects tests

    client = OpenAI(base_url=f"{loopback.url}/v1", api_key="sk-x")
    return client.chat.completions.create(model="gpt-5.3", messages=MESSAGES)


def from_anthropic(loopback: Loopback) -> object:
    from anthropic import Anthropic

    client = Anthropic(base_url=loopback.url, api_key="sk-x")
    return client.messages.create(model="claude-opus-5", messages=MESSAGES, max_tokens=99)


BOTH = pytest.mark.parametrize("ask", [from_openai, from_anthropic])


@pytest.fixture
def loopback() -> Any:
    with Loopback() as server:
        yield server


@BOTH
def test_text_and_calls_become_one_output(loopback: Loopback, ask: Any) -> None:
    loopback.steps.append(Answer(text="I look.", calls=(READ, Call("call_2", "ls"))))
    (draft,) = drafts = entries_of(ask(loopback))
    assert isinstance(draft.body, ModelOutput)
    assert draft.body.text == "I look."
    assert [call.model_dump() for call in open_tool_calls(drafts)] == [
        {"id": "call_1", "name": "read_file", "arguments": {"path": "a.py"}},
        {"id": "call_2", "name": "ls", "arguments": {}},
    ]


@BOTH
def test_a_response_without_tool_calls_has_no_open_calls(loopback: Loopback, ask: Any) -> None:
    assert open_tool_calls(entries_of(ask(loopback))) == ()


@BOTH
def test_model_usage_and_provider_are_kept(loopback: Loopback, ask: Any) -> None:
    loopback.steps.append(Answer(text="Here.", cached=5))
    response = ask(loopback)
    facts = entries_of(response)[0].metadata
    provider = ask.__name__.removeprefix("from_")
    assert (facts["provider"], facts["usage_convention"], facts["model"]) == (
        provider,
        provider,
        response.model,
    )
    assert facts["source"]["id"] == response.id
    assert facts["source"]["finish_reason"] in ("stop", "end_turn")
    assert facts["usage"] == response.usage.model_dump(mode="json", exclude_none=True)


def test_signed_thoughts_are_kept_for_the_next_request(loopback: Loopback) -> None:
    loopback.steps.append(Answer(text="Here.", thoughts="Where?", opaque="c2lnbmVk"))
    body = entries_of(from_anthropic(loopback))[0].body
    assert isinstance(body, ModelOutput)
    assert body.thoughts == "Where?"
    assert [block["signature"] for block in body.reasoning] == ["c2lnbmVk"]


def test_a_hosted_tool_call_is_not_open() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    search_result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    read = {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {}}
    drafts = entries_of({"content": [search, search_result, read], "usage": {"output_tokens": 9}})
    assert [call.id for call in open_tool_calls(drafts)] == ["toolu_1"]
    assert [bool(draft.metadata.get("usage")) for draft in drafts] == [False, False, True]
    assert open_tool_calls(entries_of({"content": [search, search_result]})) == ()


@pytest.mark.parametrize("response", [None, "text", {}, {"choices": [1]}, {"content": "text"}])
def test_other_objects_are_refused(response: object) -> None:
    with pytest.raises(ValueError, match=r"neither|not a response|not the events"):
        entries_of(response)
