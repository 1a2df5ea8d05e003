"""The format of OpenAI's Chat Completions.

The results follow directly after the message with their tool calls, and arguments are JSON text.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from historyapp.core.content import has_texts, image_url, plain_text, shaped_content
from historyapp.core.context import Context, Item
from historyapp.core.conversation import InputMessage, Turn, output_text
from historyapp.core.formats.base import Format, Leaf, PromptRequest, pages_tokens
from historyapp.core.formats.calls import legal_name, object_of
from historyapp.core.formats.tools import Tool, name_fields, strict_field
from historyapp.core.images import data_size, openai_image_tokens
from historyapp.core.json import json_text
from historyapp.core.results import reported_text, returned_text
from historyapp.core.text import clean


class OpenAIChat(Format):
    """Requests to ``chat/completions``: ``tools`` and ``messages``."""

    name = "openai_chat"
    items_field = "messages"
    longest_id = 40

    def turn_items(self, turn: Turn) -> Iterable[Item]:
        text, tool_calls = output_text(turn.output), turn.output.tool_calls
        content = text if text.strip() else None
        if tool_calls:
            items = []
            for tool_call in tool_calls:
                arguments = json_text(object_of(tool_call.arguments))
                function = {"name": legal_name(tool_call.name), "arguments": arguments}
                items.append({"id": tool_call.id, "type": "function", "function": function})
            yield {"role": "assistant", "content": content, "tool_calls": items}
            for tool_call, result in zip(tool_calls, turn.results, strict=True):
                yield {"role": "tool", "tool_call_id": tool_call.id, "content": returned_text(result)}
        else:
            if content:
                yield {"role": "assistant", "content": content}
            yield from (_user(reported_text(result, turn.output)) for result in turn.results)
        yield from map(_user, turn.remarks)

    def input_items(self, message: InputMessage) -> Iterable[Item]:
        source, is_system = message.content, message.is_instruction
        content = plain_text(source) if is_system else shaped_content(source, _block)
        if content and (not isinstance(content, str) or content.strip()):
            yield {"role": "system" if is_system else "user", "content": content}

    def with_ids(self, items: Sequence[Item], ids: Sequence[str]) -> list[Item]:
        message, *others = items
        tool_calls = [{**call, "id": id} for call, id in zip(message["tool_calls"], ids, strict=True)]
        results = [{**item, "tool_call_id": id} for item, id in zip(others[: len(ids)], ids, strict=True)]
        return [{**message, "tool_calls": tool_calls}, *results, *others[len(ids) :]]

    def leaves(self, item: Item) -> Iterator[Leaf]:
        content = item["content"]
        if isinstance(content, str):
            yield Leaf(content)
        for block in content if isinstance(content, list) else ():
            match block["type"]:
                case "text":
                    yield Leaf(block["text"])
                case "image_url":
                    yield Leaf(tokens=openai_image_tokens(data_size(block["image_url"]["url"])))
                case _:
                    yield Leaf(tokens=pages_tokens(block))
        for tool_call in item.get("tool_calls", ()):
            yield Leaf(f"{tool_call['function']['name']} {tool_call['function']['arguments']}")

    def fields(self, context: Context, items: list[Item]) -> dict[str, Any]:
        fixed = [*self.text_items(context.system, "system"), *self.text_items(context.notebook, "system")]
        return {"messages": [*fixed, *items]}

    def request_leaves(self, request: Mapping[str, Any]) -> Iterator[Leaf]:
        for message in request["messages"]:
            yield from self.leaves(message)

    def tool_item(self, tool: Tool) -> Item:
        function = {**name_fields(tool), "parameters": tool.schema, **strict_field(tool)}
        return {"type": "function", "function": function}

    def uncounted(self, block: Mapping[str, Any]) -> str:
        match block:
            case {"type": "input_audio"}:
                return "an audio part"
            case {"type": "file", "file": {"file_id": _}}:
                return "a file that the provider would fetch"
            case {"type": "file", "file": {"file_data": data}} if "://" in str(data)[:100]:
                return "a file that the provider would fetch"
        return ""

    def prompt(
        self, instruction: str, material: str, schema: Mapping[str, Any] | None = None
    ) -> PromptRequest:
        context = {"messages": [{"role": "system", "content": clean(instruction)}, _user(material)]}
        if schema is None:
            return PromptRequest(context, {})
        json_schema = {"name": "summary", "schema": dict(schema), "strict": True}
        return PromptRequest(
            context, {"response_format": {"type": "json_schema", "json_schema": json_schema}}
        )


OPENAI_CHAT = OpenAIChat()


def _user(text: str) -> Item:
    return {"role": "user", "content": text}


def _block(part: dict[str, Any]) -> dict[str, Any] | None:
    match part.get("type"):
        case "image" if url := image_url(part, ("http://", "https://")):
            return {"type": "image_url", "image_url": {"url": url}}
        case "file" if has_texts(part.get("file"), ("file_id",), ("file_data", "filename")):
            return {"type": "file", "file": part["file"]}
        case "input_audio" if has_texts(part.get("input_audio"), ("data", "format")):
            return {"type": "input_audio", "input_audio": part["input_audio"]}
    return None
