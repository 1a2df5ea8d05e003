"""What OpenAI's chat completions refuse, in its own words.

Sources: the API reference of ``POST /v1/chat/completions`` (fields, roles, names and lengths) and the error
messages that the API answers with. Stricter than the API in one point: a message must not be empty.
"""

import re
from collections.abc import Iterator
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MAX_ID = 40
_PARTS = {
    "text": "text",
    "image_url": "image_url",
    "input_audio": "input_audio",
    "file": "file",
    "refusal": "refusal",
}


def problem(body: dict[str, Any]) -> str | None:
    """Why the request is refused; None when it is accepted."""
    return next(_problems(body), None)


def _problems(body: dict[str, Any]) -> Iterator[str]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "you must provide a model parameter"
    limit = body.get("max_completion_tokens", 1)
    if not isinstance(limit, int) or limit < 1:
        yield "Invalid 'max_completion_tokens': integer below minimum value."
    for tool in body.get("tools", ()):
        yield from _tool(tool.get("type"), tool.get("function"))
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "Invalid 'messages': empty array. Expected an array with minimum length 1."
        return
    for place, message in enumerate(messages):
        yield from _message(f"messages[{place}]", message)
    yield from _pairing(messages)


def _tool(kind: Any, function: Any) -> Iterator[str]:
    if kind != "function" or not isinstance(function, dict):
        yield "Invalid value for 'tools': expected a function."
        return
    yield from function_problems(function)


def function_problems(function: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a function's definition, in both of OpenAI's APIs."""
    if not NAME.fullmatch(str(function.get("name"))):
        yield "Invalid 'tools[0].function.name': string does not match pattern."
    if function.get("parameters", {"type": "object"}).get("type") != "object":
        yield f"Invalid schema for function '{function.get('name')}': schema must be of type \"object\"."


def _message(at: str, message: dict[str, Any]) -> Iterator[str]:
    role = message.get("role")
    if role not in ("system", "developer", "user", "assistant", "tool"):
        yield f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'tool', …"
    calls = message.get("tool_calls")
    if role != "assistant" and calls is not None:
        yield f"Additional properties are not allowed ('tool_calls' was unexpected) - '{at}'"
    if calls is not None and not calls:
        yield f"Invalid '{at}.tool_calls': empty array. Expected an array with minimum length 1."
    content = message.get("content")
    if content is None and not (role == "assistant" and (calls or message.get("refusal"))):
        yield f"Invalid value for 'content': expected a string, got null. ({at})"
    if content is not None:
        yield from _content(f"{at}.content", content)
    for call in calls or ():
        yield from _call(f"{at}.tool_calls", call)


def _content(at: str, content: Any) -> Iterator[str]:
    if isinstance(content, str):
        if not content.strip():
            yield f"Invalid '{at}': empty string."
    elif not isinstance(content, list) or not content:
        yield f"Invalid '{at}': expected a string or a non-empty array of parts."
    else:
        for part in content:
            field = _PARTS.get(part.get("type"))
            if field is None or not part.get(field):
                yield f"Invalid '{at}': a part without {field or 'a known type'}."


def _call(at: str, call: dict[str, Any]) -> Iterator[str]:
    id, function = call.get("id"), call.get("function", {})
    if not isinstance(id, str) or not 0 < len(id) <= MAX_ID:
        yield f"Invalid '{at}[0].id': string too long. Expected a string with maximum length {MAX_ID}."
    if call.get("type") != "function" or not NAME.fullmatch(str(function.get("name"))):
        yield f"Invalid '{at}[0].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'."
    if not isinstance(function.get("arguments"), str):
        yield f"Invalid type for '{at}[0].function.arguments': expected a string."


def _pairing(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Each call has exactly one result, directly after it, and each result has a call."""
    open_ids: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_ids:
                yield "messages with role 'tool' must be a response to a message with 'tool_calls'."
                return
            open_ids.remove(message["tool_call_id"])
            continue
        if open_ids:
            break
        open_ids = [call["id"] for call in message.get("tool_calls") or ()]
        if len(set(open_ids)) < len(open_ids):
            yield "Duplicate value for 'tool_call_id'."
    if open_ids:
        yield (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(open_ids)
        )
