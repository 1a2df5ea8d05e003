"""The loopback refuses what the providers refuse. Otherwise other tests would prove nothing."""

import http.client
import json
import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.llm.loopback import Answer, Loopback, chat_rules, messages_rules, responses_rules

HI = {"role": "user", "content": "Hi"}
TOOL_CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]}
ANSWERED = {"role": "tool", "tool_call_id": "a", "content": "x"}
USING = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
USE = {"role": "assistant", "content": [USING]}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
RETURNED = {"role": "user", "content": [RESULT]}
CALL_ITEM = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "x"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}


@pytest.mark.parametrize("messages", [[HI], [HI, CALLED, ANSWERED], [HI, CALLED, ANSWERED, CALLED, ANSWERED]])
def test_chat_accepts_valid_requests(messages: list[Any]) -> None:
    assert chat_rules.problem({"model": "m", "messages": messages}) is None


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "robot", "content": "Hi"}],
        [{"role": "user", "content": " "}],
        [{"role": "user", "content": []}],
        [{"role": "assistant", "content": None}],
        [HI, {**CALLED, "tool_calls": []}],
        [HI, CALLED],
        [HI, CALLED, HI, ANSWERED],
        [HI, ANSWERED],
        [HI, CALLED, ANSWERED, ANSWERED],
        [HI, {**CALLED, "tool_calls": [TOOL_CALL, TOOL_CALL]}, ANSWERED, ANSWERED],
        [
            HI,
            {**CALLED, "tool_calls": [{**TOOL_CALL, "id": "a" * 41}]},
            {**ANSWERED, "tool_call_id": "a" * 41},
        ],
        [
            HI,
            {**CALLED, "tool_calls": [{**TOOL_CALL, "function": {"name": "a b", "arguments": "{}"}}]},
            ANSWERED,
        ],
        [HI, {**CALLED, "tool_calls": [{**TOOL_CALL, "function": {"name": "f", "arguments": {}}}]}, ANSWERED],
    ],
)
def test_chat_refuses_what_openai_refuses(messages: list[Any]) -> None:
    assert chat_rules.problem({"model": "m", "messages": messages})


@pytest.mark.parametrize(
    "items",
    ["Hi", [HI], [HI, CALL_ITEM, OUTPUT], [HI, REASONING, CALL_ITEM, OUTPUT], [HI, CALL_ITEM, HI, OUTPUT]],
)
def test_responses_accept_valid_requests(items: Any) -> None:
    assert responses_rules.problem({"model": "m", "input": items}) is None


@pytest.mark.parametrize(
    "items",
    [
        "",
        [],
        [{"role": "user", "content": ""}],
        [HI, CALL_ITEM],
        [HI, OUTPUT],
        [HI, CALL_ITEM, OUTPUT, OUTPUT],
        [HI, CALL_ITEM, CALL_ITEM, OUTPUT],
        [HI, {**CALL_ITEM, "id": "call_1"}, OUTPUT],
        [HI, {**CALL_ITEM, "arguments": {}}, OUTPUT],
        [HI, REASONING],
        [HI, REASONING, HI],
        [HI, {**REASONING, "encrypted_content": None}, CALL_ITEM, OUTPUT],
        [HI, {"type": "telepathy"}],
    ],
)
def test_responses_refuse_what_openai_refuses(items: Any) -> None:
    assert responses_rules.problem({"model": "m", "input": items})


@pytest.mark.parametrize(
    "messages", [[HI], [HI, USE, RETURNED], [HI, {"role": "assistant", "content": "Yes"}, HI]]
)
def test_messages_accept_valid_requests(messages: list[Any]) -> None:
    assert messages_rules.problem({"model": "m", "max_tokens": 9, "messages": messages}) is None


def blocks(role: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(content)}


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "assistant", "content": "Hi"}],
        [{"role": "system", "content": "Hi"}, HI],
        [HI, HI],
        [{"role": "user", "content": ""}],
        [blocks("user", {"type": "text", "text": " "})],
        [HI, USE],
        [HI, USE, HI],
        [HI, USE, blocks("user", RESULT, RESULT)],
        [HI, USE, blocks("user", {"type": "text", "text": "x"}, RESULT)],
        [blocks("user", RESULT)],
        [HI, USE, RETURNED, USE, RETURNED],
        [HI, blocks("assistant", {"type": "tool_use", "id": "a b", "name": "f", "input": {}}), RETURNED],
        [HI, blocks("assistant", {"type": "tool_use", "id": "a", "name": "f", "input": "{}"}), RETURNED],
        [HI, blocks("assistant", {"type": "thinking", "thinking": "x"}, USING), RETURNED],
        [HI, blocks("assistant", {"type": "thinking", "thinking": "x", "signature": "y"})],
        [HI, {"role": "assistant", "content": "Yes "}],
        [
            blocks(
                "user",
                *({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}} for _ in range(5)),
            )
        ],
        [blocks("user", {"type": "text", "text": "x", "cache_control": {"type": "eternal"}})],
        [
            blocks(
                "user",
                {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            )
        ],
    ],
)
def test_messages_refuse_what_anthropic_refuses(messages: list[Any]) -> None:
    assert messages_rules.problem({"model": "m", "max_tokens": 9, "messages": messages})


def post(url: str, path: str, body: Any, key: str = "k") -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.request("POST", path, json.dumps(body), {"Authorization": f"Bearer {key}"})
    response = connection.getresponse()
    answer: dict[str, Any] = json.loads(response.read())
    connection.close()
    return response.status, answer


def test_errors_have_each_provider_s_shape(loopback: Loopback) -> None:
    status, answer = post(loopback.url, "/v1/chat/completions", {"model": "m", "messages": []})
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    status, answer = post(loopback.url, "/v1/messages", {"model": "m", "messages": 5})
    assert (status, answer["type"], answer["error"]["type"]) == (400, "error", "invalid_request_error")
    assert post(loopback.url, "/v1/messages", {}, key="")[0] == 401
    assert post(loopback.url, "/v1/nothing", {})[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        (
            "/v1/chat/completions",
            {"messages": [HI]},
            lambda answer: answer["choices"][0]["message"]["content"],
        ),
        ("/v1/responses", {"input": "Hi"}, lambda answer: answer["output"][0]["content"][0]["text"]),
        ("/v1/messages", {"messages": [HI], "max_tokens": 9}, lambda answer: answer["content"][0]["text"]),
    ],
)
def test_the_loopback_responds_without_streaming_as_well(
    loopback: Loopback, path: str, body: dict[str, Any], text: Any
) -> None:
    loopback.steps.append(Answer(text="Hello."))
    status, answer = post(loopback.url, path, {"model": "m", **body})
    assert (status, text(answer)) == (200, "Hello.")


def test_the_loopback_can_be_started_alone() -> None:
    command = [sys.executable, "-m", "tests.llm.loopback"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            lines = [process.stdout.readline() for _ in range(4)]
            variables = dict(line.removeprefix("export ").strip().split("=", 1) for line in lines)
            body = {"model": "m", "messages": [HI]}
            assert post(variables["ANTHROPIC_BASE_URL"], "/v1/chat/completions", body)[0] == 200
        finally:
            process.terminate()
