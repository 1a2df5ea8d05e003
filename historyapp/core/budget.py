"""What a whole request costs in tokens: system, notebook, tools, messages, overhead, images.

Everything that is said, each text, call, result and image, costs its own tokens and a share of overhead. So
costs add up: a policy adds what it chooses, and the sum is what :meth:`RequestMeter.total` finds in the
rendered request. Texts are counted exactly for OpenAI's models; overhead is an upper bound, and counts for
other models are estimates.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

from historyapp.core.formats import format_named
from historyapp.core.formats.base import Item
from historyapp.core.formats.neutral import leading, mended
from historyapp.core.formats.parts import json_text
from historyapp.core.formats.tools import Definition, maker_of
from historyapp.core.images import Size, anthropic_image_tokens, image_size, openai_image_tokens
from historyapp.core.manifest import Message
from historyapp.core.text import clean
from historyapp.core.tokens import TokenCounter, count_tokens, counter_for, encoding_for

OVERHEAD = 4
"""Tokens around each text, call and result: 3 for a message and 1 for its role.
Source: OpenAI Cookbook, "How to count tokens with tiktoken", ``tokens_per_message`` and the role's own."""
PRIMING = 3
"""Tokens with which every answer is primed. Source: the same."""
TOOL_PROMPT = 346
"""What Anthropic adds when there are tools. Source: Claude documentation, "Tool use", "Pricing"."""
OWN_TOOL = 800
"""What a provider adds at most for a tool of its own. Source: Claude documentation, "Tool use", which tells
245 to 735 by tool; OpenAI does not tell."""
FACTORS = {"anthropic": 1.25, "unknown": 1.1}
"""Tokens of other tokenizers for each of o200k_base's, until reported usage teaches better.
Claude's: 374 calls of recorded Claude Code sessions added 1.20 to 1.25 times our count to their usage, taking
the median of each model."""
PER_PAGE = 3000
"""Tokens of a PDF's page at most. Source: Claude documentation, "PDF support"."""
PAGE = 20_000
"""Characters of a document or sound taken for a page: a guess, as nothing tells before it is sent."""


class Fixed(NamedTuple):
    """What every context of a session begins with, in tokens."""

    system: int
    notebook: int
    tools: int

    @property
    def total(self) -> int:
        return sum(self)


class Leaf(NamedTuple):
    """One thing that is said in a request."""

    text: str = ""
    tokens: int = 0
    """Of what is no text, as its provider counts it."""
    result: bool = False
    """Whether it answers a call."""


@dataclass(frozen=True, slots=True)
class RequestMeter:
    """Counts for one format and one model. ``factor`` corrects ``count`` where that is another model's."""

    format: str = "openai_chat"
    count: TokenCounter = count_tokens
    factor: float = 1.0

    def text(self, text: str) -> int:
        """A text within a message: its share, rounded down."""
        return int(self.count(clean(text)) * self.factor)

    def said(self, text: str) -> int:
        """A text as a message of its own; nothing when it is blank."""
        return self.message(Message(role="user", content=text))

    def fixed(self, system: str, notebook: str, tools: Sequence[Definition] = ()) -> Fixed:
        """The parts that every context begins with.

        Raises:
            Invalid: when a tool's definition is none.
        """
        first, second = (self.message(Message(role="system", content=text)) for text in (system, notebook))
        return Fixed(first, second, self._tools(format_named(self.format).tools(tools)))

    def message(self, message: Message) -> int:
        """One message as it stands among others: a call without its result, a result without its call."""
        if message.role != "tool":
            return self._cost(leaf for leaf in self._leaves([message]) if not leaf.result)
        call = {"id": message.tool_call_id, "name": "call"}
        told = self._leaves([Message(role="assistant", content="", tool_calls=[call]), message])
        return self._cost(leaf for leaf in told if leaf.result)

    def messages(self, messages: Iterable[Message]) -> int:
        """Whole turns, with the results that formats give to calls that have none."""
        return self._cost(self._leaves(list(messages)))

    @property
    def reserve(self) -> int:
        """The most that a format may add to any context: the most that :meth:`added` can be."""
        return self._priming + sum(map(self.said, format_named(self.format).most))

    def added(self, messages: Sequence[Message], live_screen: str = "") -> int:
        """What the format adds to just this context."""
        shaped = format_named(self.format)
        told = [*messages[leading(messages) :], Message(role="user", content=live_screen)]
        return self._priming + sum(map(self.said, shaped.frame(shaped.items(mended(told)))))

    def total(self, request: Mapping[str, Any]) -> int:
        """A rendered request."""
        if self.format == "plain":
            return self._lines(request["text"])
        said = [*_contents(request.get("system")), *_contents(request.get("instructions"))]
        for item in (*request.get("messages", ()), *request.get("input", ())):
            said += _leaves(item)
        return self._priming + self._tools(request.get("tools", ())) + self._cost(said)

    @property
    def _priming(self) -> int:
        return 0 if self.format == "plain" else PRIMING

    def _leaves(self, messages: Sequence[Message]) -> list[Leaf]:
        items = format_named(self.format).items(mended(messages))
        return [leaf for item in items for leaf in _leaves(item)]

    def _tools(self, tools: Sequence[Mapping[str, Any]]) -> int:
        prompt = TOOL_PROMPT if tools and self.format == "anthropic_messages" else 0
        bare = [{name: tool[name] for name in tool if name != "cache_control"} for tool in tools]
        return prompt + self._cost(Leaf(json_text(tool), OWN_TOOL if maker_of(tool) else 0) for tool in bare)

    def _cost(self, leaves: Iterable[Leaf]) -> int:
        if self.format == "plain":
            return sum(self._lines(leaf.text) for leaf in leaves)
        return sum(self._scaled(self.count(leaf.text) + OVERHEAD) + leaf.tokens for leaf in leaves)

    def _lines(self, text: str) -> int:
        """Plain text line by line, so that texts that are put together cost what they cost alone."""
        lines = ["", *text.split("\n")] if text else []
        return sum(self._scaled(self.count(line) + 1) for line in lines)

    def _scaled(self, tokens: int) -> int:
        return ceil(tokens * self.factor)


def meter_for(format: str, model: str = "", factor: float | None = None) -> RequestMeter:
    """The meter for a format and a model.

    Args:
        factor: what the model's own tokens are to o200k_base's, where that is known; otherwise 1 for OpenAI's
            models and an estimate for all others.

    Raises:
        Invalid: for an unknown format.
    """
    format_named(format)
    if factor is None:
        ours = encoding_for(model) is not None or not (model or format == "anthropic_messages")
        claude = format == "anthropic_messages" or "claude" in model.lower()
        factor = 1.0 if ours else FACTORS["anthropic" if claude else "unknown"]
    return RequestMeter(format, counter_for(model), factor)


def _leaves(item: Item) -> list[Leaf]:
    """What a rendered message or item says."""
    if "text" in item:
        return [Leaf(item["text"], result=item["role"] == "tool")]
    match item.get("type"):
        case "function_call":
            return [Leaf(f"{item['name']} {item['arguments']}")]
        case "function_call_output":
            return [leaf._replace(result=True) for leaf in _contents(item["output"])]
        case "reasoning":
            return [Leaf(tokens=_opaque(item["encrypted_content"]))]
    calls = [call["function"] for call in item.get("tool_calls", ())]
    answers = item["role"] == "tool"
    said = [leaf._replace(result=leaf.result or answers) for leaf in _contents(item["content"])]
    return [*said, *(Leaf(f"{call['name']} {call['arguments']}") for call in calls)]


def _contents(content: Any) -> Iterator[Leaf]:
    if isinstance(content, str):
        yield Leaf(content)
    for block in content if isinstance(content, list) else ():
        yield from _block_leaves(block)


def _block_leaves(block: Item) -> Iterator[Leaf]:
    match block["type"]:
        case "text" | "input_text":
            yield Leaf(block["text"])
        case "tool_use":
            yield Leaf(f"{block['name']} {json_text(block['input'])}")
        case "tool_result":
            yield from (leaf._replace(result=True) for leaf in _contents(block["content"]))
        case "thinking":
            yield Leaf(block["thinking"], 0 if block["thinking"] else _opaque(block["signature"]))
        case "redacted_thinking":
            yield Leaf(tokens=_opaque(block["data"]))
        case "image_url":
            yield Leaf(tokens=openai_image_tokens(_size(block["image_url"]["url"])))
        case "input_image":
            yield Leaf(tokens=openai_image_tokens(_size(block["image_url"])))
        case "image":
            yield Leaf(tokens=anthropic_image_tokens(_size(block["source"].get("data", ""))))
        case "document" if block["source"]["type"] == "text":
            yield Leaf(block["source"]["data"])
        case _:
            yield Leaf(tokens=PER_PAGE * ceil(len(json_text(block)) / PAGE))


def _size(source: str) -> Size:
    """Of an image given as base64 or as a data URL; of one that lies elsewhere it is not known."""
    return image_size(source.partition(";base64,")[2] if source.startswith("data:") else source)


def _opaque(data: str) -> int:
    """Tokens of encrypted reasoning: four bytes or more each, written in base64."""
    return len(data) // 4
