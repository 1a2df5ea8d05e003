"""Histories and contexts as plain text, for prompts that are written by hand and for people."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from historyapp.core.entries import ModelInput, ToolResult
from historyapp.core.episodes import Episode
from historyapp.core.formats.base import Frame, Item
from historyapp.core.formats.neutral import conversation_of, leading_texts
from historyapp.core.formats.parts import plain_text
from historyapp.core.formats.tools import Definition, maker_of, tool_of
from historyapp.core.formats.turns import (
    INSTRUCTING,
    Aside,
    Turn,
    legal_name,
    object_of,
    reported,
    returned,
    spoken,
)
from historyapp.core.manifest import Context
from historyapp.core.rendering import as_list, as_paragraphs, call_text
from historyapp.core.text import clean

fmt_list = as_list
fmt_paragraph = as_paragraphs


def get_history(summaries: Iterable[str], episodes: Iterable[Episode]) -> str:
    """Summaries, a blank line, then the detailed steps (SEMANTICS C)."""
    told = "\n".join(text for text in summaries if text.strip())
    return "\n\n".join(part for part in (told, as_paragraphs(episodes)) if part)


class _Plain:
    """One text: ``{"text": …}``, blocks under headings, joined by blank lines."""

    name = "plain"
    most = Frame()

    def render(self, context: Context, *, model: str, tools: Sequence[Definition] = ()) -> dict[str, Any]:
        self.tools(tools)
        instructing = (context.system, context.notebook, *leading_texts(context))
        system = [_block("System", text) for text in instructing if text.strip()]
        items = [*system, *self.items(conversation_of(context))]
        return {"text": "\n\n".join(item["text"] for item in items)}

    def items(self, conversation: Sequence[Turn | Aside]) -> list[Item]:
        told = (_turn(said) if isinstance(said, Turn) else _aside(said) for said in conversation)
        return [item for items in told for item in items]

    def frame(self, items: Sequence[Item]) -> Frame:
        return Frame()

    def tools(self, definitions: Sequence[Definition]) -> list[dict[str, Any]]:
        """None: a text has no place for them. What is no tool is refused all the same."""
        for definition in definitions:
            if maker_of(definition) is None:
                tool_of(definition)
        return []


def _block(heading: str, text: str) -> Item:
    return {"role": heading.lower(), "text": f"## {heading}\n{clean(text).strip()}"}


def _aside(aside: Aside) -> Iterator[Item]:
    match aside.body:
        case ModelInput(channel=channel, content=said):
            text = plain_text(said)
            if text.strip():
                yield _block("System" if channel in INSTRUCTING else "User", text)
        case ToolResult() as result:
            yield _block("User", reported(result))


def _turn(turn: Turn) -> Iterator[Item]:
    text, calls = spoken(turn.output), turn.output.tool_calls
    if text.strip():
        yield _block("Assistant", text)
    for call, result in zip(calls, turn.results, strict=False):
        yield _block("Call", call_text(legal_name(call.name), object_of(call.arguments)))
        heading = "Result" if result.status == "success" else "Result: failed"
        yield {**_block(heading, returned(result)), "role": "tool"}
    if not calls:
        yield from (_block("User", reported(result, turn.output)) for result in turn.results)


PLAIN = _Plain()
