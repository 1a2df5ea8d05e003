"""The interface of formats. A format writes turns and inputs as one provider's items, counts their tokens,
and makes requests.

A format is a class without state. Each turn is written once, separately, and a request is made from the
written turns.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, ClassVar, Literal, NamedTuple

from historyapp.core.content import plain_text
from historyapp.core.context import Context, Item, Rendered
from historyapp.core.conversation import ConversationPart, InputMessage, Turn
from historyapp.core.entries import ModelOutput
from historyapp.core.formats.calls import CallIds
from historyapp.core.formats.tools import Definition, Tool, maker_of, tools_as
from historyapp.core.json import compact_json, json_text
from historyapp.core.text import clean_value
from historyapp.core.tokens import TokenCounter

Role = Literal["system", "user", "assistant", "tool"]
Piece = Literal["reasoning", "text", "call"]
START = "(No user message is shown before this.)"
"""True for a context whose beginning is left out, and for a whole session that begins with the model."""
EARLIER_START = "(What came before is not shown.)"
"""What :data:`START` was before 2026-11-28. It has as many tokens, so older snapshots are chosen alike."""
CONTINUE = "Continue."
OVERHEAD = 4
"""Tokens around each text, tool call and tool result: 3 for a message and 1 for its role.
Source: OpenAI Cookbook, "How to count tokens with tiktoken"."""
SHORT = 200
"""Characters of a text that is counted only once in a part: many parallel tool calls have equal results."""
PRIMING = 3
"""Tokens that the provider adds before every response. Source: as for :data:`OVERHEAD`."""
BUILT_IN_TOOL_TOKENS = 800
"""The maximum number of tokens that a provider adds for a built-in tool. Source: Claude documentation, "Tool
use", which lists 245 to 735 tokens by tool. OpenAI publishes no figures."""
PAGE_TOKENS = 3000
"""The maximum number of tokens of a page of a PDF. Source: Claude documentation, "PDF support"."""
PAGE_CHARACTERS = 20_000
"""Characters of an encoded document or sound that count as one page, because its pages are not known."""


class Frame(NamedTuple):
    """Texts that a format adds because its provider refuses requests without them."""

    before: str = ""
    """A user's text at the beginning."""
    after: str = ""
    """A user's text at the end."""


class Leaf(NamedTuple):
    """A part of a request whose tokens are counted: a text, a tool call, a tool result or an image."""

    text: str = ""
    tokens: int = 0
    """The tokens of content that is not text, as its provider counts it."""


class PromptRequest(NamedTuple):
    """A single question to a model, as a request of its provider."""

    context: dict[str, Any]
    """The fields that hold the context."""
    options: dict[str, Any]
    """Further fields of the request."""


class Format(ABC):
    """One provider's message shape."""

    name: ClassVar[str]
    max_frame: ClassVar[Frame] = Frame(before=START)
    """The largest frame that :meth:`frame` returns."""
    longest_id: ClassVar[int] = 64
    """The maximum length of a tool call's id that the provider accepts."""
    priming: ClassVar[int] = PRIMING
    tool_prompt: ClassVar[int] = 0
    """Tokens that the provider adds to a request with tools."""
    items_field: ClassVar[str]
    """The field of a request that holds its items. It is the last one."""
    roles: ClassVar[Mapping[str, Role]] = {
        "system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool",
    }  # fmt: skip
    """Whose message an item is, by its ``role``, or by its ``type`` if it has no role."""
    factor: ClassVar[float | None] = None
    """Tokens of the provider's models for each token of o200k_base, if they have a tokenizer of their own."""
    closing: ClassVar[str] = "]}"
    """The end of a request's canonical JSON, after its items."""
    reasoning_kinds: ClassVar[Collection[str]] = ()
    """The types of reasoning blocks that the provider makes and accepts."""
    text_kinds: ClassVar[Collection[str]] = ()
    """The types of the texts in a response. Only formats with reasoning need them."""
    call_kinds: ClassVar[Collection[str]] = ()
    """The types of the tool calls in a response. Only formats with reasoning need them."""

    # Turns and inputs.

    @abstractmethod
    def turn_items(self, turn: Turn) -> Iterable[Item]:
        """An output, directly after it one result for each tool call, then the remarks. No item is empty."""

    @abstractmethod
    def input_items(self, message: InputMessage) -> Iterable[Item]:
        """An input as items; none for a blank one. It may be an instruction (``message.is_instruction``)."""

    @abstractmethod
    def with_ids(self, items: Sequence[Item], ids: Sequence[str]) -> list[Item]:
        """The items of a turn with these ids for its tool calls, in the order of the tool calls."""

    @abstractmethod
    def leaves(self, item: Item) -> Iterator[Leaf]:
        """The parts of an item whose tokens are counted."""

    # Requests.

    @abstractmethod
    def fields(self, context: Context, items: list[Item]) -> dict[str, Any]:
        """The fields of a request that hold the instruction, the notebook and all items.

        They are in the order in which the provider reads them.
        """

    @abstractmethod
    def request_leaves(self, request: Mapping[str, Any]) -> Iterator[Leaf]:
        """The parts of a request whose tokens are counted, without its tools."""

    @abstractmethod
    def tool_item(self, tool: Tool) -> Item:
        """A function in the provider's shape."""

    @abstractmethod
    def prompt(
        self, instruction: str, material: str, schema: Mapping[str, Any] | None = None
    ) -> PromptRequest:
        """A request with one question. ``schema``: the JSON schema of the answer, or None for text."""

    def is_exact(self, block: Mapping[str, Any]) -> bool:
        """Whether the provider accepts one of its own reasoning blocks as it was recorded."""
        return False

    def with_reasoning(self, items: Sequence[Item], output: ModelOutput) -> list[Item]:
        """The items of a turn that was written without reasoning, with all of its recorded reasoning."""
        return list(items)

    def reasoning_leaves(self, blocks: Sequence[Item]) -> Iterator[Leaf]:
        """The leaves of reasoning blocks."""
        for block in blocks:
            yield from self.leaves(block)

    def opening(self, context: Context, tools: Sequence[Definition] = ()) -> dict[str, Any]:
        """The request before its first turn or input, without cache breakpoints; its items are last."""
        leading = list(self.joined(context.parts[: context.leading]))
        return self.tool_fields(self.tools(tools)) | self.fields(context, leading)

    def piece(self, item: Item, before: Item | None) -> str:
        """The canonical JSON that an item adds to a request after the item before it."""
        return ("," if before else "") + compact_json(item)

    def frame(self, items: Sequence[Item]) -> Frame:
        """The texts that must be added to the items of a request."""
        return Frame() if items else self.max_frame

    def tools(self, definitions: Sequence[Definition]) -> list[Item]:
        """Tools in the provider's shape.

        Raises:
            Invalid: when a definition is not valid.
        """
        return tools_as(self.name, self.tool_item, definitions)

    def request(self, context: Context, tools: Sequence[Definition] = ()) -> dict[str, Any]:
        """The fields of a request that hold the tools and the context.

        Raises:
            Invalid: when a tool's definition is not valid.
        """
        screen = context.live_screen.items if context.live_screen else []
        leading, parts = context.parts[: context.leading], context.parts[context.leading :]
        items = [*self.joined(parts), *screen]
        before, after = map(self.text_items, self.frame(items))
        items = [*self.joined(leading), *before, *items, *after]
        return self.tool_fields(self.tools(tools)) | self.fields(context, items)

    def tool_fields(self, tools: list[Item]) -> dict[str, Any]:
        """The fields of a request that hold tools in the provider's shape; none without tools."""
        return {"tools": tools} if tools else {}

    def tools_in(self, request: Mapping[str, Any]) -> Sequence[Item]:
        """The tools of a request: what :meth:`tool_fields` was given."""
        tools: Sequence[Item] = request.get("tools", ())
        return tools

    def items_in(self, request: Mapping[str, Any]) -> Sequence[Item]:
        """The items of a request, with the texts that :meth:`fields` puts before them."""
        items: Sequence[Item] = request.get(self.items_field, ())
        return items

    def role_of(self, item: Mapping[str, Any]) -> Role:
        """Whose message an item is; the user's if its role is unknown."""
        return self.roles.get(str(item.get("role") or item.get("type")), "user")

    def uncounted(self, block: Mapping[str, Any]) -> str:
        """What a block of an item is, as ``an audio part``, if its tokens or its price are unknown.

        Otherwise empty. A spending cap refuses such blocks.
        """
        return ""

    # The same for every provider.

    def text_items(self, text: str, channel: str = "user") -> list[Item]:
        """A text as separate items; empty for a blank text."""
        return self.write(InputMessage(0, text, channel)).items

    def write(self, part: ConversationPart) -> Rendered:
        """A turn or an input as items, without token counts. Tool calls keep their recorded ids."""
        if isinstance(part, Turn):
            items = [clean_value(item) for item in self.turn_items(part)]
            return Rendered(
                part.position, items, calls=tuple([tool_call.id for tool_call in part.output.tool_calls])
            )
        items = [clean_value(item) for item in self.input_items(part)]
        instruction = plain_text(part.content) if items and part.is_instruction else ""
        return Rendered(part.position, items, instruction=instruction)

    def joined(self, parts: Iterable[Rendered]) -> Iterator[Item]:
        """The items of adjacent parts. Ids that are repeated or not legal are replaced."""
        ids = CallIds(self.longest_id)
        for part in parts:
            yield from self.identified(part, [ids.of(part.position, id) for id in part.calls])

    def identified(self, part: Rendered, ids: Sequence[str]) -> Sequence[Item]:
        """The items of a part, with these ids for its tool calls."""
        return part.items if list(ids) == list(part.calls) else self.with_ids(part.items, ids)

    def leaf_tokens(self, leaves: Iterable[Leaf], count: TokenCounter, factor: float) -> int:
        """Tokens of the leaves, each with its share of overhead."""
        total, known = 0, dict[str, int]()
        for text, other_tokens in leaves:
            tokens = known.get(text)
            if tokens is None:
                tokens = ceil((count(text) + OVERHEAD) * factor)
                if len(text) <= SHORT:
                    known[text] = tokens
            total += tokens + other_tokens
        return total

    def tool_tokens(self, tools: Sequence[Mapping[str, Any]], count: TokenCounter, factor: float) -> int:
        """Tokens of tools in the provider's shape."""
        bare = [{name: tool[name] for name in tool if name != "cache_control"} for tool in tools]
        leaves = [Leaf(json_text(tool), BUILT_IN_TOOL_TOKENS if maker_of(tool) else 0) for tool in bare]
        return (self.tool_prompt if tools else 0) + self.leaf_tokens(leaves, count, factor)


def pages_tokens(block: Item) -> int:
    """Tokens of a document, a file or a sound: an upper bound by its size."""
    return PAGE_TOKENS * ceil(len(json_text(block)) / PAGE_CHARACTERS)


def opaque_tokens(data: str) -> int:
    """Tokens of encrypted reasoning in base64: at most one for four characters."""
    return len(data) // 4
