"""Any call: arguments by name, JSON as a tree or a table, Markdown as such, other texts as they are."""

from typing import Any

from dashboard.rendering.blocks import Block
from dashboard.rendering.patches import begins_with_patch, parse_patch
from dashboard.rendering.values import argument_values
from dashboard.tools.base import CallBlocks, Card, RecordedCall, ToolView, answer_blocks
from dashboard.tools.edit import patch_blocks
from dashboard.tools.web import prose
from historyapp.core.json import parse_embedded
from historyapp.core.text import MAX_READ


def fits(tool_call: RecordedCall) -> bool:
    return True


def draw(tool_call: RecordedCall, make: CallBlocks) -> Card:
    values = argument_values(make.folder, f"call-{make.index}", tool_call.arguments)
    return Card(
        values=values, response=answer_blocks(tool_call, make, lambda text, key: _answer(make, text, key))
    )


def _answer(make: CallBlocks, text: str, key: str) -> list[Block]:
    patch = parse_patch(text) if begins_with_patch(text) else None
    if patch:
        return patch_blocks(patch, make.response, key or "0")
    value = embedded_json(text)
    return prose(make, text, key) if value is None else [make.tree(key, value)]


def embedded_json(text: str) -> Any:
    """The JSON object or list in a text; None if the text is anything else."""
    if len(text) > MAX_READ or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = parse_embedded(text)
    except ValueError:
        return None
    return value or None


DEFAULT = ToolView(name="default", fits=fits, draw=draw)
