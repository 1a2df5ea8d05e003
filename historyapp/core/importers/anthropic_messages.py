"""Reads Anthropic messages: lists, requests with ``system`` and ``tools``, or requests with their responses.

Results of server tools, such as web search and code execution, are in the assistant message. Such a message
becomes several outputs that end at its results.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from historyapp.core.content import neutral_content, plain_text
from historyapp.core.entries import EntryDraft, ModelInput, ModelOutput, ToolResults
from historyapp.core.importers.base import Head, Operation, Skipped, Source
from historyapp.core.importers.event_streams import streamed_message
from historyapp.core.importers.exchanges import Dialect, Exchange, import_exchanges, require_entries
from historyapp.core.importers.messages import CallMatcher, SourceCall, session_of, tool_result, usage_facts
from historyapp.core.importers.records import head_of, present_fields, read_lines, records
from historyapp.core.json import dump_json, listing, mapping, text

_THINKING = ("thinking", "redacted_thinking")
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_OWN_BLOCKS = (*_THINKING, *_CALLS, "tool_result", "document", "search_result")
_PLAIN = {"type", "text", "id", "name", "input", "thinking", "signature", "data", "caller"}
_DIRECT = (None, {"type": "direct"})


@dataclass(slots=True)
class _Segment:
    """A part of an assistant message: blocks of the model, then the results of their tool calls."""

    blocks: list[dict[str, Any]] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    _answered: set[str] = field(default_factory=set)
    _open: set[str] = field(default_factory=set)
    """Texts of the ids, which may be any JSON: comparing each block with all others would take too long."""

    def add(self, block: dict[str, Any]) -> None:
        if _is_result(block):
            self.results.append(block)
            id = repr(block.get("tool_use_id"))
            self._answered.add(id)
            self._open.discard(id)
            return
        self.blocks.append(block)
        if block.get("type") in _CALLS and (id := repr(block.get("id"))) not in self._answered:
            self._open.add(id)

    @property
    def is_complete(self) -> bool:
        """Whether every tool call has its result, so that the next block starts another output."""
        return bool(self.results) and not self._open


class AnthropicReader:
    """Reads the messages of one conversation, in order."""

    def __init__(self, session: str) -> None:
        self.calls = CallMatcher(session)

    def drafts(self, message: dict[str, Any]) -> Iterator[EntryDraft]:
        """The entries of a message.

        Raises:
            ValueError: if it has no role.
        """
        blocks = _blocks(message.get("content"))
        match message.get("role"):
            case "assistant":
                for segment in _segments(blocks):
                    if segment.blocks:
                        yield self._output(segment.blocks)
                    if segment.results:
                        yield self._results(segment.results)
            case str() as role:
                results = [block for block in blocks if _is_result(block)]
                if results:
                    yield self._results(results)
                others = [block for block in blocks if not _is_result(block)]
                if others or not results:
                    yield EntryDraft(ModelInput(channel=role, content=neutral_content(others)))
            case _:
                raise ValueError("a message without a role")

    def _results(self, blocks: list[dict[str, Any]]) -> EntryDraft:
        results = []
        for block in blocks:
            id, name = self.calls.match_result(block.get("tool_use_id"))
            outputs = neutral_content(block.get("content"))
            results.append(tool_result(id, name, outputs, error=_failure(block) or None))
        return EntryDraft(ToolResults(results=tuple(results)))

    def _output(self, blocks: list[dict[str, Any]]) -> EntryDraft:
        call_blocks = [block for block in blocks if block.get("type") in _CALLS]
        calls, renamed = self.calls.add_output(
            SourceCall(b.get("id"), b.get("name"), b.get("input")) for b in call_blocks
        )
        thoughts = [text(block.get("thinking")) for block in blocks]
        texts = [text(block.get("text")) for block in blocks if block.get("type") == "text"]
        cited = any(block.get("citations") for block in blocks)  # the blocks are parts of one text
        # Some content does not fit into the provider-neutral fields of an output.
        kinds = [block.get("type") for block in blocks]
        needs_raw = any(set(block) - _PLAIN or block.get("caller") not in _DIRECT for block in blocks)
        needs_raw = needs_raw or kinds.count("text") > 1
        needs_raw = needs_raw or any(kind not in ("text", "tool_use", *_THINKING) for kind in kinds)
        body = ModelOutput(
            thoughts="\n\n".join(filter(None, thoughts)) or None,
            text="".join(texts) if cited else "\n\n".join(filter(None, texts)),
            tool_calls=calls,
            reasoning=[block for block in blocks if block.get("type") in _THINKING],
            raw_message={"role": "assistant", "content": blocks} if needs_raw else None,
        )
        return EntryDraft(body, metadata={"source": present_fields(call_ids=renamed)})


def _blocks(content: Any) -> list[dict[str, Any]]:
    """A message's content as blocks. Anything that is not a block becomes text."""
    items = content if isinstance(content, list) else [content]
    return [
        item if isinstance(item, dict) else {"type": "text", "text": plain_text(item)}
        for item in items
        if item not in (None, "")
    ]


def _is_result(block: dict[str, Any]) -> bool:
    return text(block.get("type")).endswith("tool_result")


def _segments(blocks: list[dict[str, Any]]) -> list[_Segment]:
    segments = [_Segment()]
    for block in blocks:
        if segments[-1].is_complete and not _is_result(block):
            segments.append(_Segment())
        segments[-1].add(block)
    return segments if blocks else [_Segment([{"type": "text", "text": ""}])]


def _failure(block: dict[str, Any]) -> str:
    """The error of a result, or an empty text for a success."""
    content = block.get("content")
    inner = mapping(content)
    if block.get("is_error") is True or text(inner.get("type")).endswith("_error"):
        reason = inner.get("error_code") or plain_text(neutral_content(content))
        return reason if isinstance(reason, str) and reason else "failed"
    code = inner.get("return_code")
    if isinstance(code, int) and code != 0:
        return text(inner.get("stderr")) + text(inner.get("stdout")) or f"return code {code}"
    return ""


def _key(message: dict[str, Any]) -> str:
    parts: list[Any] = [message.get("role")]
    for block in _blocks(message.get("content")):
        if block.get("type") in _CALLS:
            parts.append([block.get("name"), block.get("input")])
        elif block.get("type") not in _THINKING:  # clients may omit thinking when they send it back
            parts.append(block.get("text") or plain_text(neutral_content(block.get("content"))))
    return dump_json(parts)


class _AnthropicMessagesImporter:
    name = "anthropic_messages"
    title = "Anthropic messages"

    def recognises(self, head: Head) -> bool:
        if isinstance(head.document, list):
            if any("role" in mapping(item) for item in head.document[:5]):
                return _has_own_blocks(head.document)
            return any(map(_is_conversation, head.document[:20]))
        return any(map(_is_conversation, [head.document, *head.lines]))

    def read(self, source: Source) -> Iterator[Operation]:
        exchanges = _exchanges(source, head_of(source))
        dialect = Dialect(
            self.name,
            AnthropicReader,
            _key,
            lambda message: [b.get("id") for b in _blocks(message.get("content")) if b.get("type") in _CALLS],
        )
        yield from require_entries(
            import_exchanges(exchanges, dialect, session_of(source)), source, self.title
        )


def _has_own_blocks(messages: Any) -> bool:
    """Whether messages have blocks that only Anthropic has. Plain text is the same in both formats."""
    for message in listing(messages)[:50]:
        role, content = mapping(message).get("role"), mapping(message).get("content")
        if role not in ("user", "assistant") or mapping(message).get("tool_calls"):
            continue
        if any(_is_result(block) or block.get("type") in _OWN_BLOCKS for block in _blocks(content)):
            return True
        if any(block.get("type") == "image" and "source" in block for block in _blocks(content)):
            return True
    return False


def _is_conversation(record: Any) -> bool:
    record = mapping(record)
    request = mapping(record["request"]) if "request" in record else record
    messages = request.get("messages")
    if not isinstance(messages, list) or "choices" in mapping(record.get("response")):
        return False
    tools = [mapping(tool) for tool in listing(request.get("tools"))]
    has_response = mapping(record.get("response")).get("type") == "message"
    is_streamed = text(record.get("response")).startswith("event: message_start")
    has_anthropic_fields = "system" in request or any("input_schema" in tool for tool in tools)
    has_roles = any("role" in mapping(message) for message in messages[:5])
    return has_roles and (has_response or is_streamed or has_anthropic_fields or _has_own_blocks(messages))


def _exchanges(source: Source, head: Head) -> Iterator[Exchange | Skipped]:
    file, document = session_of(source), head.document
    if isinstance(document, list) and any("role" in mapping(item) for item in document[:5]):
        yield _exchange({"messages": document}, 0, file)
    elif document is not None and not isinstance(document, list):
        yield _exchange(mapping(document), 0, file)
    else:
        for item in read_lines(source.stream) if document is None else records(document):
            if isinstance(item, Skipped):
                yield item
            else:
                yield _exchange(item.data, item.number, f"{file}#{item.number}")


def _exchange(record: dict[str, Any], index: int, session: str) -> Exchange | Skipped:
    is_recorded_call = "request" in record
    request = mapping(record["request"]) if is_recorded_call else record
    if not isinstance(request.get("messages"), list):
        return Skipped(index or 1, "not an Anthropic messages request", damaged=False)
    raw = record.get("response")
    response = mapping(streamed_message(raw) if isinstance(raw, str) else raw)
    reply = {"role": "assistant", "content": response["content"]} if "content" in response else None
    source = present_fields(id=response.get("id"), stop_reason=response.get("stop_reason"))
    facts = present_fields(model=response.get("model"), source=source)
    return Exchange(
        request["messages"],
        index=index,
        instruction=plain_text(neutral_content(request.get("system"))),
        reply=reply,
        reply_facts=usage_facts(response.get("usage"), "anthropic") | facts,
        failure="" if reply or raw is None else dump_json(response.get("error") or record.get("status")),
        session=None if is_recorded_call else session,
        model=text(response.get("model")) or text(request.get("model")),
        metadata=present_fields(tools=request.get("tools")),
    )


ANTHROPIC_MESSAGES = _AnthropicMessagesImporter()
