"""Entries as Anthropic messages: user first, then alternating, a turn's results in one user message."""

from collections.abc import Iterable, Iterator
from typing import Any

from historyapp.core.entries import (
    Entry,
    MemoryNotebook,
    ModelInput,
    ModelOutput,
    SystemInstruction,
    ToolCall,
    ToolResult,
)
from historyapp.core.formats.openai_chat import object_of
from historyapp.core.formats.parts import anthropic_content
from historyapp.core.formats.turns import (
    Aside,
    CallIds,
    Turn,
    legal_name,
    reported,
    returned,
    spoken,
    turns,
)
from historyapp.core.text import clean_value

LONGEST_ID = 64
NO_BEGINNING = "(What came before was not recorded.)"

Block = dict[str, Any]


class AnthropicRendering:
    """Renders one session; ``instruction`` and ``notebook`` are the current ones once all has been told."""

    def __init__(self) -> None:
        self.instruction = ""
        self.notebook = ""
        self._ids = CallIds(LONGEST_ID)

    @property
    def system(self) -> list[Block]:
        """What goes beside the messages."""
        return [_text(clean_value(text)) for text in (self.instruction, self.notebook) if text.strip()]

    def messages(self, entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
        """Live entries, oldest first, as messages."""
        role, blocks = "", list[Block]()
        for next_role, more in self._blocks(entries):
            if not role and next_role == "assistant":
                yield {"role": "user", "content": [_text(NO_BEGINNING)]}
            if next_role != role and blocks:
                yield clean_value({"role": role, "content": blocks})
                blocks = []
            role = next_role
            blocks.extend(more)
        if blocks:
            yield clean_value({"role": role, "content": _closed(blocks) if role == "assistant" else blocks})

    def _blocks(self, entries: Iterable[Entry]) -> Iterator[tuple[str, list[Block]]]:
        """Role and blocks of all that is said, none of it empty."""
        for item in turns(entries):
            if isinstance(item, Turn):
                yield from self._turn(item)
            elif blocks := self._aside(item):
                yield "user", blocks

    def _aside(self, aside: Aside) -> list[Block]:
        match aside.body:
            case SystemInstruction(text=text):
                self.instruction = text
                return []
            case MemoryNotebook(content=text):
                self.notebook = text
                return []
            case ModelInput(content=said):
                return _as_blocks(anthropic_content(said))
            case ToolResult() as result:
                return [_text(reported(result))]

    def _turn(self, turn: Turn) -> Iterator[tuple[str, list[Block]]]:
        calls = [(self._ids.of(turn.position, call), call) for call in turn.output.tool_calls]
        said = _as_blocks(spoken(turn.output)) + [_call(id, call) for id, call in calls]
        if said:  # thinking alone is no message
            yield "assistant", _thinking(turn.output) + said
        if calls:
            results = zip(calls, turn.results, strict=True)
            yield "user", [_result(id, result) for (id, _), result in results]
        elif turn.results:
            yield "user", [_text(reported(result, turn.output)) for result in turn.results]


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _as_blocks(content: str | list[Block]) -> list[Block]:
    if isinstance(content, list):
        return content
    return [_text(content)] if content.strip() else []


def _thinking(output: ModelOutput) -> list[Block]:
    """The thinking blocks that Anthropic made itself, byte for byte; it refuses any other."""
    return [
        block
        for block in output.reasoning
        if isinstance(block, dict)
        and (
            (block.get("type") == "thinking" and isinstance(block.get("signature"), str))
            or (block.get("type") == "redacted_thinking" and isinstance(block.get("data"), str))
        )
    ]


def _call(id: str, call: ToolCall) -> Block:
    name, arguments = legal_name(call.name), object_of(call.arguments)
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def _result(id: str, result: ToolResult) -> Block:
    content = anthropic_content(result.outputs) if result.status == "success" else returned(result)
    block = {"type": "tool_result", "tool_use_id": id, "content": _as_blocks(content) or returned(result)}
    return block if result.status == "success" else {**block, "is_error": True}


def _closed(blocks: list[Block]) -> list[Block]:
    """The last message of all must not end in white space."""
    *before, last = blocks
    return [*before, _text(last["text"].rstrip())] if last["type"] == "text" else blocks
