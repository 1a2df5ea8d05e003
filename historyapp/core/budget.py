"""Counts the tokens of a whole request: system, notebook, tools, messages, overhead, images.

Each text, tool call, result and image costs its own tokens and a share of overhead. So costs add up: a policy
adds the costs of what it chooses, and the sum is :meth:`RequestMeter.request_tokens` of the rendered request.
Texts are counted exactly for OpenAI's models. Overhead is an upper bound, and counts for other models are
estimates. Each format reads the texts of its items and counts their tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from historyapp.core.context import Context, Item, Rendered
from historyapp.core.conversation import ConversationPart, InputMessage
from historyapp.core.entries import ModelOutput
from historyapp.core.formats import format_named
from historyapp.core.formats.anthropic_messages import ANTHROPIC_MESSAGES
from historyapp.core.formats.base import Format
from historyapp.core.formats.reasoning import own_blocks
from historyapp.core.formats.tools import Definition
from historyapp.core.text import clean
from historyapp.core.tokens import TokenCounter, count_tokens, counter_for, encoding_for

UNKNOWN_FACTOR = 1.1
"""Tokens of an unknown tokenizer for each token of o200k_base, until reported usage gives a better factor."""


class FixedTokens(NamedTuple):
    """Tokens of the parts with which every context of a session begins."""

    system: int
    notebook: int
    tools: int


@dataclass(frozen=True, slots=True)
class RequestMeter:
    """Writes the parts of a request and counts their tokens, for one format and one model.

    ``factor`` corrects ``count`` if that is the tokenizer of another model.
    """

    format: str = "openai_chat"
    count: TokenCounter = count_tokens
    factor: float = 1.0

    def text_tokens(self, text: str) -> int:
        """Tokens of a text within a message, rounded down."""
        return int(self.count(clean(text)) * self.factor)

    def write(self, part: ConversationPart) -> Rendered:
        """A turn or an input as the format writes it, with its tokens."""
        rendered = self._format.write(part)
        return rendered._replace(tokens=self.item_tokens(rendered.items))

    def with_reasoning(self, rendered: Rendered, output: ModelOutput) -> Rendered:
        """A turn that was written without reasoning, now with all of its recorded reasoning."""
        leaves = self._format.reasoning_leaves(own_blocks(self._format, output))
        tokens = rendered.tokens + self._format.leaf_tokens(leaves, self.count, self.factor)
        return rendered._replace(items=self._format.with_reasoning(rendered.items, output), tokens=tokens)

    def message_tokens(self, text: str) -> int:
        """Tokens of a text as a message of its own; 0 if it is blank."""
        return self.write(InputMessage(0, text)).tokens

    def fixed_tokens(self, system: str, notebook: str, tools: Sequence[Definition] = ()) -> FixedTokens:
        """Tokens of the parts with which every context begins.

        Raises:
            Invalid: when a tool's definition is not valid.
        """
        system_tokens, notebook_tokens = (
            self.write(InputMessage(0, text, "system")).tokens for text in (system, notebook)
        )
        definitions = self._format.tools(tools)
        return FixedTokens(
            system_tokens, notebook_tokens, self._format.tool_tokens(definitions, self.count, self.factor)
        )

    @property
    def reserve(self) -> int:
        """The maximum number of tokens that :meth:`added_tokens` can return for any context."""
        return self._format.priming + sum(map(self.message_tokens, self._format.max_frame))

    def added_tokens(self, context: Context) -> int:
        """Tokens that the format adds to this context."""
        items = [item for part in context.parts[context.leading :] for item in part.items]
        items += context.live_screen.items if context.live_screen else []
        return self._format.priming + sum(map(self.message_tokens, self._format.frame(items)))

    def request_tokens(self, request: Mapping[str, Any]) -> int:
        """Tokens of a rendered request."""
        format = self._format
        tools = format.tool_tokens(format.tools_in(request), self.count, self.factor)
        leaves = format.request_leaves(request)
        return format.priming + tools + format.leaf_tokens(leaves, self.count, self.factor)

    def item_tokens(self, items: Sequence[Item]) -> int:
        """Tokens of written items, without those that the format adds to a whole request."""
        leaves = (leaf for item in items for leaf in self._format.leaves(item))
        return self._format.leaf_tokens(leaves, self.count, self.factor)

    @property
    def _format(self) -> Format:
        return format_named(self.format)


def meter_for(format: str, model: str = "", factor: float | None = None) -> RequestMeter:
    """The meter for a format and a model.

    Args:
        factor: the model's tokens for each token of o200k_base, if known; None: 1 for OpenAI's models, and an
            estimate for all others.

    Raises:
        Invalid: for an unknown format.
    """
    own_factor = format_named(format).factor
    if factor is None:
        is_exact = encoding_for(model) is not None or not (model or own_factor)
        is_claude = "claude" in model.lower()
        estimate = own_factor or (ANTHROPIC_MESSAGES.factor if is_claude else None) or UNKNOWN_FACTOR
        factor = 1.0 if is_exact else estimate
    return RequestMeter(format, counter_for(model), factor)
