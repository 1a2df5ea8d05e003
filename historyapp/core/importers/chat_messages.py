"""Converts OpenAI chat messages to entries. Several agents store their history in this format."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from historyapp.core.content import arguments_of, neutral_content, plain_text
from historyapp.core.embedded_json import shared_value_limit
from historyapp.core.entries import (
    EntryDraft,
    ModelInput,
    ModelOutput,
    SystemInstruction,
    ToolResults,
    UseTool,
    text_of,
)
from historyapp.core.importers.messages import CallMatcher, SourceCall, tool_result
from historyapp.core.importers.records import present_fields
from historyapp.core.json import dump_json, listing, mapping, text
from historyapp.core.scanning import enclosed

_INSTRUCTION_ROLES = ("system", "developer")
_NEUTRAL_FIELDS = {"role", "content", "tool_calls", "function_call", "reasoning_content", "name"}
# A name has no "<": otherwise the time is quadratic in the number of unclosed tags.
_CALL_IN_TEXT = re.compile(r"<function=([^<>\s]+)>\n?(.*?)(?:</function|\Z)", re.DOTALL)
_PARAMETER, _END_OF_PARAMETER = re.compile(r"<parameter=([^<>\s]+)>"), re.compile("</parameter>")


def split_instruction(messages: list[Any]) -> tuple[str, list[Any]]:
    """The system and developer messages at the start of a conversation as one text, and the rest."""
    texts: list[str] = []
    for message in messages:
        if not isinstance(message, dict) or message.get("role") not in _INSTRUCTION_ROLES:
            break
        texts.append(plain_text(neutral_content(message.get("content"))))
    return "\n\n".join(texts), messages[len(texts) :]


def message_key(message: Any) -> str:
    """A message's role, text and calls without ids: equal for a reply and its copy in a later request."""
    if not isinstance(message, dict):
        return dump_json(message)
    # Arguments are JSON text in some messages and objects in others.
    with shared_value_limit():
        calls = [
            (tool_call.name, dump_json(arguments_of(tool_call.arguments)))
            for tool_call in source_calls(message)
        ]
    return dump_json([message.get("role"), plain_text(neutral_content(message.get("content"))), calls])


def source_calls(message: dict[str, Any]) -> list[SourceCall]:
    """The tool calls of an assistant message, or its deprecated ``function_call``."""
    calls = []
    for tool_call in map(mapping, listing(message.get("tool_calls"))):
        function = mapping(tool_call.get("function")) or mapping(tool_call.get("custom")) or tool_call
        arguments = function["arguments"] if "arguments" in function else function.get("input")
        calls.append(SourceCall(tool_call.get("id"), function.get("name"), arguments))
    if not calls and (function := mapping(message.get("function_call"))):
        calls.append(SourceCall(None, function.get("name"), function.get("arguments")))
    return calls


def call_in_text(content: str) -> tuple[UseTool, str] | None:
    """The tool call that a model without tool calling wrote as ``<function=…>``, and the text before it."""
    match = _CALL_IN_TEXT.search(content)
    if match is None:
        return None
    parameters = enclosed(match[2], _PARAMETER, _END_OF_PARAMETER)
    arguments = {part.opening[1]: part.inside.strip("\n") for part in parameters}
    return UseTool(name=match[1], arguments=arguments), content[: match.start()].strip()


class ChatMessagesReader:
    """Reads the messages of one conversation, in order."""

    def __init__(self, session: str, is_failure: Callable[[str], bool] = lambda _: False) -> None:
        self.calls = CallMatcher(session)
        self._is_failure = is_failure
        self._has_messages = False
        self._pending_tool: str | None = None
        """The tool whose result is the next user message."""

    def drafts(self, message: dict[str, Any]) -> Iterator[EntryDraft]:
        """The entries of a message.

        Raises:
            ValueError: if it has no role.
        """
        content = neutral_content(message.get("content"))
        match message.get("role"):
            case "assistant":
                yield self._output(message, text_of(content) or text(message.get("refusal")))
            case "tool" | "function":
                id, name = self.calls.match_result(message.get("tool_call_id"), message.get("name"))
                output = plain_text(content)
                result = tool_result(id, name, content, error=output if self._is_failure(output) else None)
                yield EntryDraft(ToolResults(results=(result,)))
            case "user" if self._pending_tool is not None:
                result = tool_result(None, self._pending_tool, content)
                self._pending_tool = None
                yield EntryDraft(ToolResults(results=(result,)))
            case "user":
                source = present_fields(name=message.get("name"))
                yield EntryDraft(ModelInput(content=content), metadata={"source": source})
            case "system" | "developer" if not self._has_messages:
                yield EntryDraft(SystemInstruction(text=plain_text(content)))
            case str() as role:  # a later instruction does not replace the first one
                yield EntryDraft(ModelInput(channel=role, content=content))
            case _:
                raise ValueError("a message without a role")
        self._has_messages = True

    def _output(self, message: dict[str, Any], content: str) -> EntryDraft:
        calls, renamed = self.calls.add_output(source_calls(message))
        text_call = None if calls else call_in_text(content)
        self._pending_tool = text_call[0].name if text_call else None
        # Some fields do not fit into the provider-neutral fields of an output.
        has_more = any(value for name, value in message.items() if name not in _NEUTRAL_FIELDS)
        parts = listing(message.get("content"))
        is_plain = all(isinstance(part, dict) and set(part) <= {"type", "text"} for part in parts)
        body = ModelOutput(
            thoughts=text(message.get("reasoning_content"))
            or text(message.get("reasoning"))
            or (text_call[1] if text_call else None),
            text="" if text_call else content,
            tool_calls=calls,
            use_tool=text_call[0] if text_call else None,
            reasoning=listing(message.get("reasoning_details")) or listing(message.get("thinking_blocks")),
            raw_message=message if text_call or has_more or len(parts) > 1 or not is_plain else None,
        )
        return EntryDraft(body, metadata={"source": present_fields(call_ids=renamed)})
