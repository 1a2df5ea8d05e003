"""The format of OpenAI's Responses API, where tool calls, their outputs and reasoning are separate items."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from historyapp.core.content import has_texts, image_url, plain_text, shaped_content
from historyapp.core.context import Context, Item
from historyapp.core.conversation import InputMessage, Turn, output_text
from historyapp.core.entries import ModelOutput
from historyapp.core.formats.base import Format, Leaf, PromptRequest, opaque_tokens
from historyapp.core.formats.calls import legal_name, object_of
from historyapp.core.formats.reasoning import in_response_order
from historyapp.core.formats.tools import Tool, name_fields
from historyapp.core.images import data_size, openai_image_tokens
from historyapp.core.json import json_text
from historyapp.core.results import reported_text, returned_content, returned_text
from historyapp.core.text import clean, clean_value


class OpenAIResponses(Format):
    """Requests to ``responses``: ``tools``, ``instructions`` and ``input``."""

    name = "openai_responses"
    items_field = "input"
    roles = {
        **Format.roles,
        "function_call": "assistant", "custom_tool_call": "assistant", "reasoning": "assistant",
        "function_call_output": "tool", "custom_tool_call_output": "tool",
    }  # fmt: skip
    reasoning_kinds = ("reasoning",)
    text_kinds = ("message",)
    call_kinds = ("function_call", "custom_tool_call")

    def turn_items(self, turn: Turn) -> Iterable[Item]:
        text, tool_calls = output_text(turn.output), turn.output.tool_calls
        message = [_message("assistant", text)] if text.strip() else []
        reasoning = _reasoning(turn.output) if turn.has_reasoning else []
        if tool_calls:
            yield from [*message, *reasoning]
            for tool_call in tool_calls:
                name, arguments = legal_name(tool_call.name), json_text(object_of(tool_call.arguments))
                yield {"type": "function_call", "call_id": tool_call.id, "name": name, "arguments": arguments}
            for tool_call, result in zip(tool_calls, turn.results, strict=True):
                output: Any = _content(returned_content(result))
                if isinstance(output, str) or not output:
                    output = returned_text(result)
                yield {"type": "function_call_output", "call_id": tool_call.id, "output": output}
        else:
            yield from [*reasoning, *message] if message else []
            yield from (_message("user", reported_text(result, turn.output)) for result in turn.results)
        yield from (_message("user", remark) for remark in turn.remarks)

    def input_items(self, message: InputMessage) -> Iterable[Item]:
        content = plain_text(message.content) if message.is_instruction else _content(message.content)
        if content and (not isinstance(content, str) or content.strip()):
            yield _message("system" if message.is_instruction else "user", content)

    def with_ids(self, items: Sequence[Item], ids: Sequence[str]) -> list[Item]:
        call_ids, result_ids = iter(ids), iter(ids)
        renamed = []
        for item in items:
            match item["type"]:
                case "function_call":
                    renamed.append({**item, "call_id": next(call_ids)})
                case "function_call_output":
                    renamed.append({**item, "call_id": next(result_ids)})
                case _:
                    renamed.append(item)
        return renamed

    def leaves(self, item: Item) -> Iterator[Leaf]:
        match item["type"]:
            case "function_call":
                yield Leaf(f"{item['name']} {item['arguments']}")
            case "function_call_output":
                yield from _content_leaves(item["output"])
            case "reasoning":
                yield Leaf(tokens=opaque_tokens(item["encrypted_content"]))
            case _:
                yield from _content_leaves(item["content"])

    def is_exact(self, block: Mapping[str, Any]) -> bool:
        content = block.get("content", [])
        has_valid_content = isinstance(content, list) and all(
            isinstance(part, dict) and part.get("type") == "reasoning_text" and has_texts(part, ("text",))
            for part in content
        )
        has_valid_status = block.get("status", "completed") in ("in_progress", "completed", "incomplete")
        has_valid_fields = set(block) <= _ITEM_FIELDS and has_valid_content and has_valid_status
        return _is_complete(block) and has_valid_fields

    def with_reasoning(self, items: Sequence[Item], output: ModelOutput) -> list[Item]:
        count = bool(output_text(output).strip()) + len(output.tool_calls)
        return [*in_response_order(self, output, items[:count]), *items[count:]]

    def fields(self, context: Context, items: list[Item]) -> dict[str, Any]:
        instructions = {"instructions": clean(context.system)} if context.system.strip() else {}
        return {**instructions, "input": [*self.text_items(context.notebook, "system"), *items]}

    def request_leaves(self, request: Mapping[str, Any]) -> Iterator[Leaf]:
        if "instructions" in request:
            yield Leaf(request["instructions"])
        for item in request["input"]:
            yield from self.leaves(item)

    def tool_item(self, tool: Tool) -> Item:
        # The SDK's type requires strict; the API's own default, true, refuses ordinary schemas.
        fields = {**name_fields(tool), "parameters": tool.schema, "strict": bool(tool.strict)}
        return {"type": "function", **fields}

    def prompt(
        self, instruction: str, material: str, schema: Mapping[str, Any] | None = None
    ) -> PromptRequest:
        context = {"instructions": instruction, "input": [{"role": "user", "content": material}]}
        if schema is None:
            return PromptRequest(context, {})
        output_format = {"type": "json_schema", "name": "summary", "schema": dict(schema), "strict": True}
        return PromptRequest(context, {"text": {"format": output_format}})


OPENAI_RESPONSES = OpenAIResponses()
_ITEM_FIELDS = {"type", "id", "summary", "content", "encrypted_content", "status"}
"""Fields of a reasoning item that the API accepts: ``ResponseReasoningItemParam`` of the openai SDK."""


def _message(role: str, content: Any) -> Item:
    return {"type": "message", "role": role, "content": content}


def _content(content: Any) -> str | list[Item]:
    blocks = shaped_content(content, _block)
    if isinstance(blocks, str):
        return blocks
    return [{**block, "type": "input_text"} if block["type"] == "text" else block for block in blocks]


def _block(part: dict[str, Any]) -> dict[str, Any] | None:
    if part.get("type") == "image" and (url := image_url(part, ("http://", "https://"))):
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return None


def _content_leaves(content: str | list[Item]) -> Iterator[Leaf]:
    if isinstance(content, str):
        yield Leaf(content)
        return
    for block in content:
        if block["type"] == "input_image":
            yield Leaf(tokens=openai_image_tokens(data_size(block["image_url"])))
        else:
            yield Leaf(block["text"])


def _reasoning(output: ModelOutput) -> list[Item]:
    """OpenAI's reasoning items that are complete: the API accepts only these if it did not store them."""
    items = []
    for block in output.reasoning:
        if not isinstance(block, dict) or block.get("type") != "reasoning" or clean_value(block) != block:
            continue
        if _is_complete(block):
            items.append({name: block[name] for name in ("type", "id", "summary", "encrypted_content")})
    return items


def _is_complete(block: Mapping[str, Any]) -> bool:
    """Whether a reasoning item has all fields that the API requires."""
    summary = block.get("summary")
    parts = summary if isinstance(summary, list) else [None]
    return has_texts(block, ("id", "encrypted_content")) and all(
        isinstance(part, dict) and part.get("type") == "summary_text" and isinstance(part.get("text"), str)
        for part in parts
    )
