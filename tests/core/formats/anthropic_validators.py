"""Anthropic's published rules."""

import re
from collections.abc import Callable, Iterator
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


def anthropic_messages(request: Request) -> None:
    """Claude documentation, "Messages", "Tool use", "Extended thinking", "Prompt caching"; types of the
    anthropic SDK."""
    refuse_unless(set(request) <= {"tools", "system", "messages"}, "an unknown field", set(request))
    messages = request["messages"]
    # "messages: at least one message is required"; "first message must use the 'user' role"; "roles must
    # alternate". Today's API joins messages of one role; alternating is accepted by all versions.
    refuse_unless(messages, "no messages")
    refuse_unless(len(messages) <= 100_000, "more than 100,000 messages")
    for number, message in enumerate(messages):
        refuse_unless(
            message["role"] == ("assistant" if number % 2 else "user"), "roles that do not alternate"
        )
        refuse_unless(set(message) == {"role", "content"}, "fields of a message", set(message))
    # "This model does not support assistant message prefill. The conversation must end with a user message."
    # ("Errors", "Prefill not supported")
    refuse_unless(messages[-1]["role"] == "user", "an assistant's message at the end")
    _anthropic_pairs(messages)
    for message in messages:
        refuse_unless(message["content"], "a message without content")
        for block in message["content"]:
            _ANTHROPIC_BLOCKS[message["role"]].get(block["type"], _unknown_block)(block)
        _thinking_order(message["content"])
    for block in request.get("system", ()):
        refuse_unless(block["type"] == "text", "a system block that is no text", block)
        refuse_blank(block["text"], "a system block")
    _anthropic_tools(request)
    _breakpoints(request)


def _unknown_block(block: Any) -> None:
    raise Refused(f"a block of type {block['type']!r} in that role")


def _anthropic_pairs(messages: list[Any]) -> None:
    """Pairs, by the API's own words: "`tool_use` ids were found without `tool_result` blocks immediately
    after. Each `tool_use` block must have a corresponding `tool_result` block in the next message",
    "unexpected `tool_use_id` found in `tool_result` blocks", "each tool_use must have a single result",
    "`tool_use` ids must be unique". And results "must come FIRST in the content array" ("Handle tool calls").
    """
    call_ids: list[str] = []
    seen: set[str] = set()
    for message in messages:
        kinds = [block["type"] for block in message["content"]]
        results = [block for block in message["content"] if block["type"] == "tool_result"]
        refuse_unless("tool_result" not in kinds[len(results) :], "results after other content", kinds)
        refuse_unless(
            sorted(block["tool_use_id"] for block in results) == sorted(call_ids), "torn pairs", call_ids
        )
        call_ids = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        refuse_unless(
            len(set(call_ids)) == len(call_ids) and not seen & set(call_ids),
            "ids that are not unique",
            call_ids,
        )
        seen.update(call_ids)


def _anthropic_text(block: Any) -> None:
    """``TextBlockParam``."""
    refuse_unless(set(block) - {"cache_control"} == {"type", "text"}, "fields of a text", block)
    refuse_blank(block["text"], "a text block")


def _anthropic_image(block: Any) -> None:
    """``ImageBlockParam``: base64 of one of four types, or an https address ("Vision"). The declared type
    must be that of the data (error text of the API)."""
    source = block["source"]
    if source["type"] == "url":
        return refuse_unless(source["url"].startswith("https://"), "an image that is not fetched", source)
    refuse_unless(
        source["type"] == "base64" and source["media_type"] in IMAGE_TYPES, "an image source", source
    )
    return is_base64(source["data"])


def _anthropic_document(block: Any) -> None:
    """``DocumentBlockParam``: ``PlainTextSourceParam``, ``Base64PDFSourceParam`` or ``URLPDFSourceParam``."""
    source = block["source"]
    kinds: dict[Any, set[Any]] = {"text": {"text/plain"}, "base64": {"application/pdf"}, "url": {None}}
    refuse_unless(source.get("media_type") in kinds.get(source.get("type"), ()), "a document", source)
    refuse_unless(
        isinstance(source.get("url" if source["type"] == "url" else "data"), str), "a document", source
    )


def _anthropic_call(block: Any) -> None:
    """``ToolUseBlockParam``: id ``^[a-zA-Z0-9_-]+$``, name ``^[a-zA-Z0-9_-]{1,64}$``, input an object."""
    refuse_unless(
        set(block) - {"cache_control"} == {"type", "id", "name", "input"}, "fields of a call", block
    )
    refuse_unless(ID.fullmatch(block["id"]) and len(block["id"]) <= 64, "an illegal id", block["id"])
    refuse_unless(NAME.fullmatch(block["name"]), "an illegal name", block["name"])
    refuse_unless(isinstance(block["input"], dict), "input that is no object", block["input"])


def _anthropic_result(block: Any) -> None:
    """``ToolResultBlockParam``: text, image and document blocks."""
    fields = {"type", "tool_use_id", "content", "is_error", "cache_control"}
    refuse_unless(set(block) <= fields, "fields of a result", set(block))
    if isinstance(block["content"], str):
        return refuse_blank(block["content"], "a result")
    refuse_unless(block["content"], "a result without content")
    for part in block["content"]:
        shapes = {name: _ANTHROPIC_BLOCKS["user"][name] for name in ("text", "image", "document")}
        shapes.get(part["type"], _unknown_block)(part)
    return None


def _anthropic_thinking(block: Any) -> None:
    """``ThinkingBlockParam``, ``RedactedThinkingBlockParam``: exactly as returned, with what proves it; never
    with a cache breakpoint ("Prompt caching", "What cannot be cached")."""
    thinking = {"type", "thinking", "signature"}
    fields = thinking if block["type"] == "thinking" else {"type", "data"}
    refuse_unless(set(block) == fields, "fields of thinking", set(block))
    refuse_unless(all(isinstance(block[name], str) for name in fields), "thinking", block)
    refuse_unless(block.get("signature", block.get("data")), "thinking that nothing proves", block)


_ANTHROPIC_BLOCKS: dict[str, dict[str, Callable[[Any], None]]] = {
    "user": {
        "text": _anthropic_text,
        "image": _anthropic_image,
        "document": _anthropic_document,
        "tool_result": _anthropic_result,
    },
    "assistant": {
        "text": _anthropic_text,
        "tool_use": _anthropic_call,
        "thinking": _anthropic_thinking,
        "redacted_thinking": _anthropic_thinking,
    },
}


def _thinking_order(blocks: list[Any]) -> None:
    """ "The final block in an assistant message cannot be `thinking`" (error text of the API); nothing comes
    after calls but calls, since what follows a call is its result."""
    kinds = [block["type"] for block in blocks]
    refuse_unless(kinds[-1] not in ("thinking", "redacted_thinking"), "thinking at the end", kinds)


def _anthropic_tools(request: Request) -> None:
    """``ToolUnionParam``: name ``^[a-zA-Z0-9_-]{1,64}$``, input_schema of type object, names unique.
    Anthropic's own tools have a dated type and no schema."""
    tools = request.get("tools", [])
    refuse_unless("tools" not in request or tools, "tools is empty")
    for tool in tools:
        if re.search(r"_20\d{6}$", tool.get("type", "")):
            refuse_unless("input_schema" not in tool, "a schema for Anthropic's own tool", tool)
            continue
        refuse_unless(NAME.fullmatch(tool["name"]), "an illegal tool name", tool)
        refuse_unless(tool["input_schema"]["type"] == "object", "a schema of no object", tool)
    names = [tool["name"] for tool in tools]
    refuse_unless(len(set(names)) == len(names), "tools of one name", names)


def _breakpoints(request: Request) -> None:
    """ "A maximum of 4 blocks with cache_control may be provided" (error text; "Prompt caching")."""
    marks = list(_find_breakpoints(request))
    refuse_unless(len(marks) <= 4, "more than 4 breakpoints", len(marks))
    refuse_unless(all(mark == {"type": "ephemeral"} for mark in marks), "a breakpoint", marks)


def _find_breakpoints(request: Request) -> Iterator[Any]:
    blocks = [*request.get("tools", ()), *request.get("system", ())]
    blocks += [block for message in request["messages"] for block in message["content"]]
    yield from (block["cache_control"] for block in blocks if "cache_control" in block)
