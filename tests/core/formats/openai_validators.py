"""OpenAI's published rules, for chat and for responses."""

import json
from collections.abc import Callable
from typing import Any

from tests.core.formats.refusals import (
    ID,
    IMAGE_TYPES,
    NAME,
    Refused,
    Request,
    is_base64,
    refuse_blank,
    refuse_unless,
)


def openai_chat(request: Request) -> None:
    """OpenAI API reference, "Create chat completion"; types ``ChatCompletion*Param`` of the openai SDK."""
    refuse_unless(set(request) <= {"tools", "messages"}, "an unknown field", set(request))
    refuse_unless(request["messages"], "messages is empty ('[] is too short - messages')")
    _openai_tools([tool["function"] for tool in request.get("tools", ())], request.get("tools"))
    open_ids: list[str] = []
    seen: set[str] = set()
    for message in request["messages"]:
        if message["role"] == "tool":
            _chat_result(message, open_ids)
            continue
        # "An assistant message with 'tool_calls' must be followed by tool messages responding to each
        # 'tool_call_id'" (error text of the API).
        refuse_unless(not open_ids, "calls without a result", open_ids)
        _CHAT_ROLES.get(message["role"], _unknown_role)(message)
        open_ids = _chat_calls(message, seen)
    refuse_unless(not open_ids, "calls without a result at the end", open_ids)


def _unknown_role(message: Any) -> None:
    raise Refused(f"unknown role {message['role']!r}")


def _chat_result(message: Any, open_ids: list[str]) -> None:
    """``ChatCompletionToolMessageParam``: content is text or text parts. "Messages with role 'tool' must be a
    response to a preceding message with 'tool_calls'" (error text of the API)."""
    refuse_unless(
        set(message) == {"role", "tool_call_id", "content"}, "fields of a tool message", set(message)
    )
    refuse_unless(message["tool_call_id"] in open_ids, "a result without its call", message["tool_call_id"])
    open_ids.remove(message["tool_call_id"])
    refuse_blank(message["content"], "a result")


def _chat_calls(message: Any, seen: set[str]) -> list[str]:
    """``ChatCompletionMessageFunctionToolCallParam``; ids of at most 40 characters ("string too long.
    Expected a string with maximum length 40", error text of the API)."""
    if "tool_calls" not in message:
        return []
    refuse_unless(message["role"] == "assistant", "calls of another role than the assistant's")
    refuse_unless(message["tool_calls"], "tool_calls is empty ('[] is too short')")
    for call in message["tool_calls"]:
        refuse_unless(set(call) == {"id", "type", "function"} and call["type"] == "function", "a call", call)
        refuse_unless(set(call["function"]) == {"name", "arguments"}, "a function call", call)
        refuse_unless(ID.fullmatch(call["id"]) and len(call["id"]) <= 40, "an illegal id", call["id"])
        refuse_unless(NAME.fullmatch(call["function"]["name"]), "an illegal name", call)
        _arguments(call["function"]["arguments"])
        refuse_unless(call["id"] not in seen, "an id that was used before", call["id"])
        seen.add(call["id"])
    return [call["id"] for call in message["tool_calls"]]


def _arguments(text: Any) -> None:
    """The arguments are a JSON string (``Function.arguments``) of an object, as the schema of a tool says."""
    refuse_unless(isinstance(text, str), "arguments that are no string", text)
    refuse_unless(isinstance(json.loads(text), dict), "arguments that are no object", text)


def _chat_system(message: Any) -> None:
    """``ChatCompletionSystemMessageParam``: text only."""
    refuse_unless(set(message) == {"role", "content"}, "fields of a system message", set(message))
    parts = message["content"] if isinstance(message["content"], list) else [message["content"]]
    for part in parts:
        refuse_blank(part["text"] if isinstance(part, dict) else part, "a system message")


def _chat_user(message: Any) -> None:
    """``ChatCompletionContentPartParam``: text, image_url, input_audio or file."""
    refuse_unless(set(message) == {"role", "content"}, "fields of a user message", set(message))
    if isinstance(message["content"], str):
        return refuse_blank(message["content"], "a user message")
    refuse_unless(message["content"], "a user message without parts")
    for part in message["content"]:
        match part["type"]:
            case "text":
                refuse_blank(part["text"], "a text part")
            case "image_url":
                refuse_unless(set(part) == {"type", "image_url"}, "fields of an image", part)
                _openai_image(part["image_url"]["url"])
            case "file" | "input_audio":
                refuse_unless(isinstance(part[part["type"]], dict), "a part without its object", part)
            case kind:
                raise Refused(f"a part of type {kind!r}")
    return None


def _openai_image(url: Any) -> None:
    """ "Either a URL of the image or the base64 encoded image data"; PNG, JPEG, WEBP and GIF (OpenAI
    documentation, "Images and vision", "Image input requirements")."""
    refuse_unless(isinstance(url, str), "an image without an address", url)
    if not url.startswith("data:"):
        return refuse_unless(url.startswith(("http://", "https://")), "an image from nowhere", url)
    head, _, data = url.partition(";base64,")
    refuse_unless(head.removeprefix("data:") in IMAGE_TYPES, "an image that cannot be read", head)
    return is_base64(data)


def _chat_assistant(message: Any) -> None:
    """``ChatCompletionAssistantMessageParam``: content is "required unless tool_calls is specified".
    Reasoning has no place in chat messages."""
    refuse_unless(set(message) <= {"role", "content", "tool_calls"}, "fields of an assistant", set(message))
    if message["content"] is None:
        return refuse_unless(message.get("tool_calls"), "an assistant message without anything")
    return refuse_blank(message["content"], "an assistant message")


_CHAT_ROLES: dict[str, Callable[[Any], None]] = {
    "system": _chat_system,
    "user": _chat_user,
    "assistant": _chat_assistant,
}


def _openai_tools(functions: list[Any], given: Any) -> None:
    """``FunctionDefinition``: "a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of
    64"; parameters is a JSON schema object. An empty list is refused ("[] is too short - tools")."""
    refuse_unless(given is None or given, "tools is empty")
    for function in functions:
        refuse_unless(NAME.fullmatch(function["name"]), "an illegal tool name", function)
        refuse_unless(function["parameters"]["type"] == "object", "parameters of no object", function)
        refuse_unless(isinstance(function.get("strict"), bool | None), "strict is no boolean", function)
    names = [function["name"] for function in functions]
    refuse_unless(len(set(names)) == len(names), "tools of one name", names)


_CARRIED_OUT = (
    "web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11",
    "file_search", "code_interpreter", "image_generation",
)  # fmt: skip
"""Tools that OpenAI carries out itself. Source: ``ToolParam`` of the openai SDK."""


def openai_responses(request: Request) -> None:
    """OpenAI API reference, "Create a model response"; types ``Response*Param`` of the openai SDK."""
    refuse_unless(set(request) <= {"tools", "instructions", "input"}, "an unknown field", set(request))
    refuse_unless(request["input"], "input is empty")
    functions = [tool for tool in request.get("tools", ()) if tool["type"] not in _CARRIED_OUT]
    _openai_tools(functions, request.get("tools"))
    for tool in functions:
        # ``FunctionToolParam``: parameters and strict are required.
        refuse_unless(tool["type"] == "function" and {"parameters", "strict"} <= set(tool), "a tool", tool)
    if "instructions" in request:
        refuse_blank(request["instructions"], "instructions")
    _responses_order(request["input"])
    for item in request["input"]:
        match item["type"]:
            case "message":
                _responses_message(item)
            case "function_call":
                _responses_call(item)
            case "function_call_output":
                _responses_output(item)
            case "reasoning":
                _responses_reasoning(item)
            case kind:
                raise Refused(f"an item of type {kind!r}")


def _responses_order(items: list[Any]) -> None:
    """Calls and outputs go together: "No tool output found for function call" and "No tool call found for
    function call output" (error texts of the API); our own rule wants outputs directly after their calls.
    Reasoning comes before what it led to: "Item of type 'reasoning' was provided without its required
    following item" (error text; OpenAI documentation, "Keeping reasoning items in context").
    """
    open_ids: list[str] = []
    seen: set[str] = set()
    for item, following in zip(items, [*items[1:], {"type": "end"}], strict=True):
        match item["type"]:
            case "function_call":
                refuse_unless(item["call_id"] not in seen, "an id that was used before", item["call_id"])
                seen.add(item["call_id"])
                open_ids.append(item["call_id"])
                refuse_unless(
                    following["type"] in ("function_call", "function_call_output"),
                    "a call without output",
                    item,
                )
            case "function_call_output":
                refuse_unless(item["call_id"] in open_ids, "an output without its call", item["call_id"])
                open_ids.remove(item["call_id"])
                if following["type"] != "function_call_output":
                    refuse_unless(not open_ids, "calls without output", open_ids)
            case "reasoning":
                follows = following["type"] in ("reasoning", "function_call") or (
                    following["type"] == "message" and following["role"] == "assistant"
                )
                refuse_unless(follows, "reasoning that led to nothing", following)
    refuse_unless(not open_ids, "calls without output at the end", open_ids)


def _responses_message(item: Any) -> None:
    """``EasyInputMessageParam``: text, or input parts for roles other than the assistant's."""
    refuse_unless(set(item) == {"type", "role", "content"}, "fields of a message", set(item))
    refuse_unless(item["role"] in ("user", "assistant", "system", "developer"), "a role", item["role"])
    if isinstance(item["content"], str):
        return refuse_blank(item["content"], "a message")
    refuse_unless(item["role"] != "assistant", "input parts of the assistant's", item)
    return _input_parts(item["content"])


def _input_parts(parts: Any) -> None:
    """``ResponseInputTextParam`` and ``ResponseInputImageParam``, whose detail is required."""
    refuse_unless(isinstance(parts, list) and parts, "no parts", parts)
    for part in parts:
        match part["type"]:
            case "input_text":
                refuse_blank(part["text"], "a text part")
            case "input_image":
                refuse_unless(part["detail"] in ("low", "high", "auto", "original"), "a detail", part)
                _openai_image(part["image_url"])
            case kind:
                raise Refused(f"an input part of type {kind!r}")


def _responses_call(item: Any) -> None:
    """``ResponseFunctionToolCallParam``; a call_id of at most 64 characters."""
    refuse_unless(set(item) == {"type", "call_id", "name", "arguments"}, "fields of a call", set(item))
    refuse_unless(ID.fullmatch(item["call_id"]) and len(item["call_id"]) <= 64, "an id", item["call_id"])
    refuse_unless(NAME.fullmatch(item["name"]), "an illegal name", item["name"])
    _arguments(item["arguments"])


def _responses_output(item: Any) -> None:
    """``FunctionCallOutput``: text, or input parts."""
    refuse_unless(set(item) == {"type", "call_id", "output"}, "fields of an output", set(item))
    if isinstance(item["output"], str):
        return refuse_blank(item["output"], "an output")
    return _input_parts(item["output"])


def _responses_reasoning(item: Any) -> None:
    """``ResponseReasoningItemParam``: id, summary and type are required; without the provider's store
    encrypted_content is what carries it ("Keeping reasoning items in context")."""
    for name in ("id", "encrypted_content"):
        refuse_unless(isinstance(item.get(name), str) and item[name], f"reasoning without {name}", item)
    for part in item["summary"]:
        refuse_unless(part["type"] == "summary_text" and isinstance(part["text"], str), "a summary", item)
