"""One plain text, for prompts that are written by hand and for people."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import ceil
from typing import Any

from historyapp.core.content import plain_text
from historyapp.core.context import Context, Item
from historyapp.core.conversation import InputMessage, Turn, call_text, output_text
from historyapp.core.episodes import Episode
from historyapp.core.formats.base import Format, Frame, Leaf, PromptRequest
from historyapp.core.formats.calls import legal_name, object_of
from historyapp.core.formats.tools import Definition, Tool, maker_of, tool_of
from historyapp.core.rendering import as_list, as_paragraphs
from historyapp.core.results import reported_text, returned_text
from historyapp.core.text import clean, whole_lines
from historyapp.core.tokens import TokenCounter

# The names of these texts in the earlier systems.
fmt_list = as_list
fmt_paragraph = as_paragraphs


def get_history(summaries: Iterable[str], episodes: Iterable[Episode]) -> str:
    """Summaries, a blank line, then the detailed steps."""
    lines = "\n".join(text for text in summaries if text.strip())
    return "\n\n".join(part for part in (lines, as_paragraphs(episodes)) if part)


class Plain(Format):
    """One text: ``{"text": …}``, blocks under headings, joined by blank lines."""

    name = "plain"
    items_field = "text"
    max_frame = Frame()
    priming = 0

    def turn_items(self, turn: Turn) -> Iterable[Item]:
        text, tool_calls = output_text(turn.output), turn.output.tool_calls
        if text.strip():
            yield _block("Assistant", text)
        for tool_call, result in zip(tool_calls, turn.results, strict=False):
            yield _block("Call", call_text(legal_name(tool_call.name), object_of(tool_call.arguments)))
            yield _block("Result" if result.status == "success" else "Result: failed", returned_text(result))
        if not tool_calls:
            yield from (_block("User", reported_text(result, turn.output)) for result in turn.results)
        yield from (_block("User", remark) for remark in turn.remarks)

    def input_items(self, message: InputMessage) -> Iterable[Item]:
        text = plain_text(message.content)
        if text.strip():
            yield _block("System" if message.is_instruction else "User", text)

    def with_ids(self, items: Sequence[Item], ids: Sequence[str]) -> list[Item]:
        return list(items)  # a text contains no ids

    def leaves(self, item: Item) -> Iterator[Leaf]:
        yield Leaf(item["text"])

    def fields(self, context: Context, items: list[Item]) -> dict[str, Any]:
        fixed = [*self.text_items(context.system, "system"), *self.text_items(context.notebook, "system")]
        return {"text": "\n\n".join(item["text"] for item in [*fixed, *items])}

    def items_in(self, request: Mapping[str, Any]) -> Sequence[Item]:
        """The text, which holds all items, as the user's message."""
        return [{"role": "user", "content": request["text"]}]

    def request_leaves(self, request: Mapping[str, Any]) -> Iterator[Leaf]:
        yield Leaf(request["text"])

    def tools(self, definitions: Sequence[Definition]) -> list[Item]:
        """An empty list, because a text cannot contain tools. Invalid definitions are still refused."""
        for definition in definitions:
            if maker_of(definition) is None:
                tool_of(definition)
        return []

    def tool_item(self, tool: Tool) -> Item:
        return {}

    def prompt(
        self, instruction: str, material: str, schema: Mapping[str, Any] | None = None
    ) -> PromptRequest:
        return PromptRequest({"text": f"{instruction}\n\n{material}"}, {})

    def leaf_tokens(self, leaves: Iterable[Leaf], count: TokenCounter, factor: float) -> int:
        """Counts line by line, so that joined texts have the sum of their tokens."""
        lines = (line for leaf in leaves if leaf.text for line in chain(("",), whole_lines(leaf.text)))
        return sum(ceil((count(line) + 1) * factor) for line in lines)


PLAIN = Plain()


def _block(heading: str, text: str) -> Item:
    return {"role": heading.lower(), "text": f"## {heading}\n{clean(text).strip()}"}
