"""What Anthropic's Messages API refuses, in its own words.

Sources: the API reference of ``POST /v1/messages``, the guides to tool use, extended thinking and prompt
caching, and the error messages of the API. Stricter in one point, where the API merges: roles must alternate.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_OWN = re.compile(r"[a-z_]+_20\d{6}")
_MAX_BREAKPOINTS = 4
_OF_USER = {"text", "image", "document", "search_result", "tool_result"}
_OF_ASSISTANT = {"text", "thinking", "redacted_thinking", "tool_use"}

Block = dict[str, Any]


def problem(body: dict[str, Any], *, counting: bool = False) -> str | None:
    """Why the request is refused; None when it is accepted. Counting tokens takes no ``max_tokens``."""
    return next(_problems(body, counting), None)


def _problems(body: dict[str, Any], counting: bool) -> Iterator[str]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model: Field required"
    limit = body.get("max_tokens")
    if counting and limit is not None:
        yield "max_tokens: Extra inputs are not permitted"
    elif not counting and (not isinstance(limit, int) or limit < 1):
        yield "max_tokens: Field required"
    for tool in body.get("tools", ()):
        if tool.get("type", "custom") == "custom":
            yield from _tool(tool)
        elif not _OWN.fullmatch(tool["type"]):
            yield f"tools.0: Input tag '{tool['type']}' does not match any of the expected tags"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "messages: at least one message is required"
        return
    yield from _system(body.get("system", "You help."))
    for place, message in enumerate(messages):
        yield from _message(f"messages.{place}", message, last=place == len(messages) - 1)
    yield from _order(messages)
    yield from _pairing(messages)
    yield from _breakpoints(body)


def _tool(tool: dict[str, Any]) -> Iterator[str]:
    if not _NAME.fullmatch(str(tool.get("name"))):
        yield "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
    schema = tool.get("input_schema")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield "tools.0.custom.input_schema.type: Field required"


def _system(system: Any) -> Iterator[str]:
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) and system else system
    if not isinstance(blocks, list):
        yield "system: Input should be a valid list"
        return
    for block in blocks:
        if block.get("type") != "text" or not block.get("text"):
            yield "system: text content blocks must be non-empty"


def blocks_of(message: dict[str, Any]) -> list[Block]:
    """A message's content as blocks."""
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _message(at: str, message: dict[str, Any], *, last: bool) -> Iterator[str]:
    role = message.get("role")
    if role not in ("user", "assistant"):
        yield f"{at}.role: Input should be 'user' or 'assistant'"
        return
    blocks = blocks_of(message)
    if not blocks:
        yield f"{at}: all messages must have non-empty content"
    allowed = _OF_USER if role == "user" else _OF_ASSISTANT
    for place, block in enumerate(blocks):
        if block.get("type") not in allowed:
            yield f"{at}.content.{place}: Input tag '{block.get('type')}' is not one of the expected tags"
        yield from _block(f"{at}.content.{place}", block)
    if last and role == "assistant" and blocks:
        if blocks[-1].get("text", "") != blocks[-1].get("text", "").rstrip():
            yield "messages: final assistant content cannot end with trailing whitespace"
        if blocks[-1]["type"] in ("thinking", "redacted_thinking"):
            yield f"{at}: The final block in an assistant message cannot be `thinking`."


def _block(at: str, block: Block) -> Iterator[str]:
    match block.get("type"):
        case "text" if not str(block.get("text", "")).strip():
            yield "messages: text content blocks must contain non-whitespace text"
        case "thinking" if not isinstance(block.get("signature"), str) or "thinking" not in block:
            yield f"{at}.thinking.signature: Field required"
        case "redacted_thinking" if not block.get("data"):
            yield f"{at}.redacted_thinking.data: Field required"
        case "tool_use":
            if not _ID.fullmatch(str(block.get("id"))):
                yield f"{at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
            if not _NAME.fullmatch(str(block.get("name"))):
                yield f"{at}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            if not isinstance(block.get("input"), dict):
                yield f"{at}.tool_use.input: Input should be a valid dictionary"
        case "tool_result":
            yield from _result(f"{at}.tool_result", block)
        case "image" | "document" if not isinstance(block.get("source"), dict):
            yield f"{at}.{block['type']}.source: Field required"


def _result(at: str, block: Block) -> Iterator[str]:
    content = block.get("content")
    if isinstance(content, str):
        return
    for inner in content or ():
        if inner.get("type") == "text" and not str(inner.get("text", "")).strip():
            yield f"{at}.content: text content blocks must contain non-whitespace text"


def _order(messages: list[dict[str, Any]]) -> Iterator[str]:
    roles = [message.get("role") for message in messages]
    if roles[0] != "user":
        yield 'messages: first message must use the "user" role'
    if any(first == second for first, second in pairwise(roles)):
        yield 'messages: roles must alternate between "user" and "assistant"'


def _pairing(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Each ``tool_use`` is answered once, first thing in the message directly after it."""
    seen: set[str] = set()
    open_ids: list[str] = []
    for place, message in enumerate(messages):
        blocks = blocks_of(message)
        results = [block.get("tool_use_id") for block in blocks if block["type"] == "tool_result"]
        if strange := [id for id in results if id not in open_ids]:
            yield f"messages.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {strange[0]}"
        if len(set(results)) < len(results):
            yield f"messages.{place}: each tool_use must have a single result"
        if missing := [id for id in open_ids if id not in results]:
            yield (
                f"messages.{place}: `tool_use` ids without `tool_result` blocks immediately after: "
                + ", ".join(missing)
            )
        if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            yield f"messages.{place}: `tool_result` blocks must come first in the content"
        open_ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(set(open_ids)) < len(open_ids) or seen & set(open_ids):
            yield "messages: `tool_use` ids must be unique"
        seen |= set(open_ids)
    if open_ids:
        yield "messages: `tool_use` ids without `tool_result` blocks immediately after"


def _breakpoints(body: dict[str, Any]) -> Iterator[str]:
    system = body.get("system")
    blocks = list(body.get("tools", ())) + (system if isinstance(system, list) else [])
    for message in body["messages"]:
        blocks += blocks_of(message)
    marked = [block for block in blocks if "cache_control" in block]
    if len(marked) > _MAX_BREAKPOINTS:
        yield f"A maximum of {_MAX_BREAKPOINTS} blocks with cache_control may be provided."
    for block in marked:
        control = block["cache_control"]
        if control.get("type") != "ephemeral" or control.get("ttl", "5m") not in ("5m", "1h"):
            yield "cache_control: Input should be 'ephemeral'"
        if block.get("type") in ("thinking", "redacted_thinking"):
            yield "thinking.cache_control: Extra inputs are not permitted"
    lifetimes = [block["cache_control"].get("ttl", "5m") for block in marked]
    if "1h" in lifetimes[lifetimes.index("5m") :] if "5m" in lifetimes else False:
        yield "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block."
