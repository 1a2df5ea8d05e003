"""What providers accept. A request that breaks one of these rules is refused by the API it is meant for."""

import json
import re
from typing import Any

LEGAL_ID = re.compile(r"[A-Za-z0-9_-]+")
LEGAL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_openai(messages: list[dict[str, Any]]) -> None:
    """Every call is answered once, directly after its message; nothing is empty; ids and names are legal."""
    json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()
    open_ids: list[str] = []
    seen: set[str] = set()
    for message in messages:
        role, content = message["role"], message["content"]
        if role == "tool":
            open_ids.remove(message["tool_call_id"])
            assert content.strip()
            continue
        assert role in ("system", "user", "assistant")
        assert not open_ids
        calls = message.get("tool_calls", [])
        assert calls or "tool_calls" not in message
        for call in calls:
            assert call["type"] == "function"
            assert LEGAL_ID.fullmatch(call["id"])
            assert len(call["id"]) <= 40
            assert LEGAL_NAME.fullmatch(call["function"]["name"])
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            assert call["id"] not in seen
            seen.add(call["id"])
            open_ids.append(call["id"])
        assert has_text(content) or (calls and content is None)
    assert not open_ids


def has_text(content: Any) -> bool:
    if isinstance(content, str):
        return bool(content.strip())
    return (
        isinstance(content, list)
        and bool(content)
        and all(part["type"] != "text" or part["text"].strip() for part in content)
    )


def check_anthropic(messages: list[dict[str, Any]], system: list[dict[str, Any]]) -> None:
    """User first, then alternating; results first in the message after their calls; nothing is empty."""
    json.dumps([messages, system], ensure_ascii=False, allow_nan=False).encode()
    assert all(block["text"].strip() for block in system)
    assert [message["role"] for message in messages] == [
        "assistant" if number % 2 else "user" for number in range(len(messages))
    ]
    called: list[str] = []
    seen: set[str] = set()
    for message in messages:
        blocks = message["content"]
        assert blocks
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        answers = [block for block in blocks if block["type"] == "tool_result"]
        assert blocks[: len(answers)] == answers
        assert sorted(block["tool_use_id"] for block in answers) == sorted(called)
        assert all(has_text(block["content"]) for block in answers)
        called = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if message["role"] == "user":
            assert not called
            continue
        assert blocks[-1]["type"] in ("text", "tool_use")
        for block in blocks:
            if block["type"] == "tool_use":
                assert LEGAL_ID.fullmatch(block["id"])
                assert len(block["id"]) <= 64
                assert LEGAL_NAME.fullmatch(block["name"])
                assert isinstance(block["input"], dict)
                assert block["id"] not in seen
                seen.add(block["id"])
            if block["type"] == "thinking":
                assert block["signature"]
    assert not called
    if messages and messages[-1]["role"] == "assistant" and messages[-1]["content"][-1]["type"] == "text":
        last = messages[-1]["content"][-1]["text"]
        assert last == last.rstrip()


PAIRED = ("openai_chat", "openai_responses", "anthropic_messages")
"""The formats whose calls and results :func:`pairs_of` finds."""


def pairs_of(name: str, request: dict[str, Any]) -> list[tuple[str, str]]:
    """Each call's id with the text that a provider takes for its result, in the order of the results."""
    match name:
        case "openai_chat":
            return [(m["tool_call_id"], m["content"]) for m in request["messages"] if m["role"] == "tool"]
        case "openai_responses":
            outputs = [item for item in request["input"] if item["type"] == "function_call_output"]
            return [(item["call_id"], item["output"]) for item in outputs]
        case _:
            blocks = [block for message in request["messages"] for block in message["content"]]
            results = [block for block in blocks if block["type"] == "tool_result"]
            return [
                (b["tool_use_id"], "".join(inner.get("text", "") for inner in b["content"])) for b in results
            ]
