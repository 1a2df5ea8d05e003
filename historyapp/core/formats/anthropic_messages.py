"""Entries as Anthropic messages: user first, then alternating, a turn's results in one user message."""

from collections.abc import Iterable, Iterator, Sequence
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
from historyapp.core.formats.base import CONTINUE, START, Frame, Item
from historyapp.core.formats.neutral import halves, leading_texts
from historyapp.core.formats.parts import anthropic_content
from historyapp.core.formats.tools import Definition, anthropic_tool, tools_as
from historyapp.core.formats.turns import (
    Aside,
    CallIds,
    Turn,
    legal_name,
    object_of,
    reported,
    returned,
    spoken,
    turns,
)
from historyapp.core.manifest import Context
from historyapp.core.text import clean, clean_value

LONGEST_ID = 64
NO_BEGINNING = "(What came before was not recorded.)"

Block = dict[str, Any]
_THINKING: dict[str, tuple[str, ...]] = {
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
}
"""The fields of each kind of thinking block; the last one is what the API verifies and is never empty."""
MOST_BREAKPOINTS = 4
"""``cache_control`` marks in one request. Source: Claude documentation, "Prompt caching"."""


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
        yield from _merged(self.said(turns(entries)))

    def said(self, conversation: Iterable[Turn | Aside]) -> Iterator[Item]:
        """All that is said, a message for each role that speaks, none of it empty."""
        for item in conversation:
            if isinstance(item, Turn):
                yield from self._turn(item)
            elif blocks := self._aside(item):
                yield _message("user", blocks)

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

    def _turn(self, turn: Turn) -> Iterator[Item]:
        calls = [(self._ids.of(turn.position, call), call) for call in turn.output.tool_calls]
        said = _as_blocks(spoken(turn.output)) + [_call(id, call) for id, call in calls]
        if said:  # thinking alone is no message
            yield _message("assistant", _thinking(turn.output) + said)
        if calls:
            results = zip(calls, turn.results, strict=True)
            yield _message("user", [_result(id, result) for (id, _), result in results])
        elif turn.results:
            yield _message("user", [_text(reported(result, turn.output)) for result in turn.results])


def _message(role: str, blocks: list[Block]) -> Item:
    return {"role": role, "content": clean_value(blocks)}


def _merged(messages: Iterable[Item]) -> Iterator[Item]:
    """Messages that begin with a user's and alternate."""
    role, blocks = "", list[Block]()
    for message in messages:
        if not role and message["role"] == "assistant":
            yield _message("user", [_text(NO_BEGINNING)])
        if message["role"] != role and blocks:
            yield {"role": role, "content": blocks}
            blocks = []
        role = message["role"]
        blocks.extend(message["content"])
    if blocks:
        yield {"role": role, "content": _closed(blocks) if role == "assistant" else blocks}


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _as_blocks(content: str | list[Block]) -> list[Block]:
    if isinstance(content, list):
        return content
    return [_text(content)] if content.strip() else []


def _thinking(output: ModelOutput) -> list[Block]:
    """The thinking blocks that Anthropic made itself, byte for byte; it refuses any other."""
    blocks = []
    for block in output.reasoning:
        kind = block.get("type") if isinstance(block, dict) else None
        names = _THINKING.get(kind, ()) if isinstance(kind, str) else ()
        if names and all(isinstance(block.get(name), str) for name in names) and block[names[-1]]:
            exact = {name: block[name] for name in ("type", *names)}
            blocks += [exact] if clean_value(exact) == exact else []
    return blocks


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


class _AnthropicMessages:
    """Requests to ``messages``: ``tools``, ``system`` and ``messages``, with cache breakpoints.

    The last message is always a user's: current models refuse to go on from an assistant's.
    """

    name = "anthropic_messages"
    most = Frame(START, CONTINUE)

    def render(self, context: Context, *, model: str, tools: Sequence[Definition] = ()) -> dict[str, Any]:
        rendering = AnthropicRendering()
        stable, rest = (list(rendering.said(half)) for half in halves(context))
        before, after = self.frame([*stable, *rest])
        opening, closing = ([_message("user", [_text(text)])] if text else [] for text in (before, after))
        marked = _marked([*opening, *stable]) if stable else opening
        fixed = [_text(clean(text)) for text in (context.system, context.notebook) if text.strip()]
        shaped = self.tools(tools)
        if fixed:
            fixed = [_with_breakpoint(block) for block in fixed]
        elif shaped:
            shaped[-1] = _with_breakpoint(shaped[-1])
        system = [*fixed, *(_text(clean(text)) for text in leading_texts(context) if text.strip())]
        fields = {"tools": shaped, "system": system}
        messages = list(_merged([*marked, *rest, *closing]))
        return {name: value for name, value in fields.items() if value} | {"messages": messages}

    def items(self, conversation: Sequence[Turn | Aside]) -> list[Item]:
        return list(AnthropicRendering().said(conversation))

    def frame(self, items: Sequence[Item]) -> Frame:
        if not items:
            return Frame(before=START)
        begins, ends = items[0]["role"] == "assistant", items[-1]["role"] == "assistant"
        return Frame(START if begins else "", CONTINUE if ends else "")

    def tools(self, definitions: Sequence[Definition]) -> list[dict[str, Any]]:
        return tools_as(self.name, anthropic_tool, definitions)


def _with_breakpoint(block: Block) -> Block:
    return {**block, "cache_control": {"type": "ephemeral"}}


def _marked(messages: list[Item]) -> list[Item]:
    """The stable messages with breakpoints at the end of the last two that are a user's.

    The newer one is written for the next call, the older one was written by the call before: the provider
    looks back from a breakpoint only 20 blocks.
    """
    ends = [
        index
        for index, message in enumerate(messages)
        if message["role"] == "user" and [m["role"] for m in messages[index + 1 : index + 2]] != ["user"]
    ]
    for index in ends[-2:]:
        *before, last = messages[index]["content"]
        messages[index] = {"role": "user", "content": [*before, _with_breakpoint(last)]}
    return messages


ANTHROPIC_MESSAGES = _AnthropicMessages()
