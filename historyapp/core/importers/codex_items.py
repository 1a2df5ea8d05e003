"""The items of a Codex history (OpenAI Responses items), as parts of outputs, inputs and results."""

import re
from typing import Any

from historyapp.core.entries import ToolResult, text_of
from historyapp.core.importers.messages import CallMatcher, SourceCall, tool_result
from historyapp.core.importers.recording import OutputParts
from historyapp.core.json import listing, mapping, parse_embedded, text

RESULT_ITEMS = ("function_call_output", "custom_tool_call_output", "tool_search_output", "function_result")
_CLIENT_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call")
_CHANNELS = {
    "<environment_context>": "meta",
    "<user_instructions>": "meta",
    "<INSTRUCTIONS>": "meta",
    "<permissions instructions>": "meta",
    "<skill>": "meta",
    "<subagent_notification>": "meta",
    "# AGENTS.md instructions": "meta",
    "<turn_aborted>": "interruption",
    "<user_shell_command>": "command",
}
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)
_EXIT_CODE = re.compile(
    r"(?:(?:Chunk ID|Wall time):[^\n]*\n)*(?:Exit code:|Process exited with code) *(-?\d{1,9})\b"
)
_BY_HUMAN = re.compile(r"\b(?:aborted|rejected) by (?:the )?user\b", re.IGNORECASE)
_FAILURE_STARTS = (
    "failed in sandbox", "failed to parse function arguments", "execution error", "exec_command failed",
    "unsupported call", "unsupported custom tool call", "apply_patch verification failed",
    "command timed out",
)  # fmt: skip
_HEAD = 300
"""Characters at the beginning of a result that are searched for its status."""


def add_item(parts: OutputParts, item: dict[str, Any]) -> None:
    """Adds an item to the output of the model."""
    match item.get("type"):
        case "reasoning":
            thoughts = [*listing(item.get("summary")), *listing(item.get("content"))]
            parts.thoughts += [text(mapping(thought).get("text")) for thought in thoughts]
            if item.get("encrypted_content"):
                parts.reasoning.append(item)
        case "message":
            parts.texts.append(text_of(parts_of(item)))
        case _ if is_hosted_call(item) and not hosted_output(item):
            parts.reasoning.append(item)  # the provider does not return the result, as for a web search
        case _:
            parts.calls.append(_call(item))


def _call(item: dict[str, Any]) -> SourceCall:
    kind = text(item.get("type"))
    candidates = (item.get(key) for key in ("arguments", "input", "action"))
    arguments = next((value for value in candidates if value is not None), None)
    if kind == "image_generation_call":
        arguments = {"prompt": item.get("revised_prompt")}
    if kind in ("function_call", "custom_tool_call", "mcp_call"):
        return SourceCall(item.get("call_id"), _tool_name(item), arguments)
    return SourceCall(_own_id(item), kind.removesuffix("_call"), arguments)


def _own_id(item: dict[str, Any]) -> str | None:
    """The id of a hosted tool call, or None."""
    return text(item.get("call_id")) or text(item.get("id")) or None


def _tool_name(item: dict[str, Any]) -> str:
    name = text(item.get("name")) or text(mapping(item.get("function")).get("name"))
    namespace = text(item.get("namespace") or item.get("server_label"))
    return f"{namespace.rstrip('_.')}__{name}" if namespace else name


def is_hosted_call(item: dict[str, Any]) -> bool:
    """Whether the item is a call of a tool that the provider runs, such as web search."""
    kind = text(item.get("type"))
    return kind.endswith("_call") and kind not in _CLIENT_CALLS


def hosted_output(item: dict[str, Any]) -> Any:
    """The output of a hosted tool call, or None."""
    candidates = (item.get(key) for key in ("error", "output", "result", "results", "outputs"))
    return next(filter(None, candidates), None)


def hosted_result(item: dict[str, Any], calls: CallMatcher) -> ToolResult | None:
    """The result of a hosted tool call. None if it has no output or the item is something else."""
    outputs = hosted_output(item) if is_hosted_call(item) else None
    if outputs is None:
        return None
    if item["type"] == "mcp_call":
        call_id, name = calls.match_result(item.get("call_id"), _tool_name(item))
    else:
        call_id, name = calls.match_result(_own_id(item), item["type"].removesuffix("_call"))
    if item.get("error") or item.get("status") == "failed":
        return tool_result(call_id, name, error=text_of(outputs))
    if item["type"] == "image_generation_call" and isinstance(outputs, str):
        source = {"type": "base64", "media_type": "image/png", "data": outputs}
        outputs = [{"type": "image", "source": source}]
    return tool_result(call_id, name, outputs)


def parts_of(item: dict[str, Any]) -> list[dict[str, Any]]:
    """A message's content as provider-neutral parts."""
    content = item.get("content", item.get("message"))
    return [_part(block) for block in ([content] if isinstance(content, str) else listing(content))]


def _part(block: Any) -> dict[str, Any]:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    part = mapping(block)
    if isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    url = part.get("image_url")
    url = mapping(url).get("url", url)
    if not isinstance(url, str):
        return part
    if data := _DATA_URL.fullmatch(url):
        return {"type": "image", "source": {"type": "base64", "media_type": data[1], "data": data[2]}}
    return {"type": "image", "source": {"type": "url", "url": url}}


def channel_of(message: str) -> str:
    """The channel of a ``user`` message: ``user``, or another one for context that Codex adds."""
    return next(
        (channel for start, channel in _CHANNELS.items() if message.lstrip().startswith(start)), "user"
    )


def result_of(
    item: dict[str, Any], calls: CallMatcher, failure: str | None
) -> tuple[ToolResult, dict[str, Any]]:
    """A result and its facts, such as exit code and duration.

    Args:
        failure: the reason of the failure, from an event; empty if unknown, None if it did not fail.
    """
    call_id, name = calls.match_result(item.get("call_id"), item.get("name"))
    outputs, facts = _unwrapped(item)
    output = text_of([outputs] if isinstance(outputs, dict) else outputs)
    failed = failure is not None or facts.get("exit_code") or facts.get("success") is False
    if _BY_HUMAN.search(output[:_HEAD]) and len(output) < _HEAD:
        return tool_result(call_id, name, feedback=output.strip()), facts
    if failed or output.startswith(_FAILURE_STARTS):
        reason = output or failure or f"exit code {facts.get('exit_code')}"
        return tool_result(call_id, name, error=reason), facts
    return tool_result(call_id, name, outputs), facts


def _unwrapped(item: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The output without its wrapper, and the facts in the wrapper."""
    raw = next((item[key] for key in ("output", "result", "tools") if key in item), None)
    if isinstance(raw, str) and raw.startswith('{"output"'):
        try:
            raw = parse_embedded(raw)
        except ValueError:
            return raw, {}
    if isinstance(raw, dict) and "output" in raw:
        return raw["output"], mapping(raw.get("metadata"))
    if isinstance(raw, dict) and "content" in raw:
        return raw["content"], {key: raw[key] for key in raw if key == "success"}
    if isinstance(raw, str) and (code := _EXIT_CODE.match(raw[:_HEAD])):
        return raw, {"exit_code": int(code[1])}
    return raw, {}


def failure_in(event: dict[str, Any]) -> str | None:
    """Why a tool failed, from the event at its end, or None if it did not."""
    if event.get("type") == "exec_command_end" and event.get("exit_code"):
        return f"exit code {event['exit_code']}"
    if event.get("type") == "patch_apply_end" and event.get("success") is False:
        return text(event.get("stderr"))
    result = mapping(event.get("result"))
    if "Err" in result:
        return text_of(result["Err"])
    ok = mapping(result.get("Ok"))
    return text_of(ok.get("content")) if ok.get("isError") else None
