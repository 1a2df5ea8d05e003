"""What OpenAI's Responses API refuses when it keeps no state, in its own words.

Sources: the API reference of ``POST /v1/responses`` and its input items, and the error messages of the API.
"""

from collections.abc import Iterator
from typing import Any

from tests.llm.loopback.chat_rules import NAME, function_problems

_PREFIXES = {"function_call": "fc", "reasoning": "rs", "message": "msg"}
_CARRIED_OUT = {"web_search", "web_search_preview", "file_search", "code_interpreter", "image_generation"}
_TEXTS = ("input_text", "output_text", "text")


def problem(body: dict[str, Any]) -> str | None:
    """Why the request is refused; None when it is accepted."""
    return next(_problems(body), None)


def _problems(body: dict[str, Any]) -> Iterator[str]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "Missing required parameter: 'model'."
    limit = body.get("max_output_tokens", 16)
    if not isinstance(limit, int) or limit < 16:
        yield "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16."
    for tool in body.get("tools", ()):
        if tool.get("type") == "function":
            yield from function_problems(tool)
        elif tool.get("type") not in _CARRIED_OUT:
            yield f"Invalid value: '{tool.get('type')}'."
    sent = body.get("input")
    if isinstance(sent, str) and sent.strip():
        return
    if not isinstance(sent, list) or not sent:
        yield "Missing required parameter: 'input'."
        return
    for place, item in enumerate(sent):
        yield from _item(f"input[{place}]", item)
    yield from _pairing(sent)
    yield from _reasoning(sent)


def _kind(item: dict[str, Any]) -> Any:
    return item.get("type", "message" if "role" in item else None)


def _item(at: str, item: dict[str, Any]) -> Iterator[str]:
    kind, id = _kind(item), item.get("id")
    prefix = _PREFIXES.get(kind)
    if id is not None and prefix and not str(id).startswith(prefix):
        yield f"Invalid '{at}.id': '{id}'. Expected an ID that begins with '{prefix}'."
    match kind:
        case "message":
            yield from _message(at, item)
        case "function_call":
            if not item.get("call_id") or not NAME.fullmatch(str(item.get("name"))):
                yield f"Invalid '{at}.name': string does not match pattern '^[a-zA-Z0-9_-]+$'."
            if not isinstance(item.get("arguments"), str):
                yield f"Invalid type for '{at}.arguments': expected a string."
        case "function_call_output":
            if not item.get("output"):
                yield f"Missing required parameter: '{at}.output'."
        case "reasoning":
            if not isinstance(item.get("summary"), list):
                yield f"Missing required parameter: '{at}.summary'."
            if not item.get("encrypted_content"):
                yield f"Item with id '{id}' not found. Items are not persisted when `store` is set to false."
        case _:
            yield f"Invalid value: '{kind}'. Supported values are: 'message', 'function_call', …"


def _message(at: str, item: dict[str, Any]) -> Iterator[str]:
    if item.get("role") not in ("user", "assistant", "system", "developer"):
        yield f"Invalid value: '{item.get('role')}' ({at}.role)."
    content = item.get("content")
    if isinstance(content, str):
        if not content.strip():
            yield f"Invalid '{at}.content': empty string."
    elif not isinstance(content, list) or not content:
        yield f"Invalid '{at}.content': expected a string or a non-empty array."
    elif any(part.get("type") in _TEXTS and not part.get("text", "").strip() for part in content):
        yield f"Invalid '{at}.content[0].text': empty string."


def _pairing(items: list[dict[str, Any]]) -> Iterator[str]:
    """Each call has exactly one output, after it."""
    called: dict[str, bool] = {}
    for item in items:
        id = item.get("call_id", "")
        if _kind(item) == "function_call":
            if id in called:
                yield f"Duplicate function call with call_id {id}."
            called[id] = False
        elif _kind(item) == "function_call_output":
            if called.get(id, True):
                yield f"No tool call found for function call output with call_id {id}."
            called[id] = True
    for id in (id for id, answered in called.items() if not answered):
        yield f"No tool output found for function call {id}."


def _reasoning(items: list[dict[str, Any]]) -> Iterator[str]:
    """A reasoning item travels with the item that it led to."""
    for item, following in zip(items, [*items[1:], {}], strict=True):
        own = following.get("role", "assistant") == "assistant" and _kind(following) in _PREFIXES
        if _kind(item) == "reasoning" and not own:
            id = item.get("id")
            yield f"Item '{id}' of type 'reasoning' was provided without its required following item."
