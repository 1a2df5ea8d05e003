"""Files and parts of files: code with its line numbers."""

from collections.abc import Mapping

from dashboard.rendering.blocks import Block
from dashboard.rendering.code import language_of
from dashboard.tools.base import CallBlocks, Card, RecordedCall, ToolView, answer_blocks, further_values
from historyapp.core.call_subjects import PATHS
from historyapp.core.numbering import numbered_code
from historyapp.core.text import preview


def fits(tool_call: RecordedCall) -> bool:
    return tool_call.subject.kind == "read" and bool(tool_call.text_of(*PATHS))


def draw(tool_call: RecordedCall, make: CallBlocks) -> Card:
    path = tool_call.text_of(*PATHS)
    card = Card(title=preview(path))
    shown = (*PATHS, "command") if tool_call.fields.get("command") == "view" else PATHS
    card.values = further_values(tool_call, make, *shown)
    content = tool_call.outputs.get("content") if isinstance(tool_call.outputs, Mapping) else None
    if isinstance(content, str):
        facts = {name: value for name, value in tool_call.outputs.items() if name != "content"}
        card.response = [*_code(tool_call, make, content, ""), make.tree("facts", facts)]
    else:
        card.response = answer_blocks(tool_call, make, lambda text, key: _code(tool_call, make, text, key))
    lines = next((block for block in card.response if block.first_line), None)
    if lines:  # as the tool numbered them; the last one may be empty
        last_line = lines.first_line + lines.text.count("\n")
        card.facts.append(f"lines {lines.first_line:,}–{last_line:,}")
    return card


def _code(tool_call: RecordedCall, make: CallBlocks, text: str, key: str) -> list[Block]:
    """Code with its line numbers, and the surrounding text."""
    numbered = None if tool_call.has_failed else numbered_code(text)
    if numbered is None:
        return [make.response(key, text)]
    language = language_of(tool_call.text_of(*PATHS))
    code = make.response(key, numbered.code, language, first_line=max(1, numbered.first_line))
    before = [make.response(f"{key}before", numbered.before)] if numbered.before.strip() else []
    after = [make.response(f"{key}after", numbered.after.strip("\n"))] if numbered.after.strip() else []
    return [*before, code, *after]


READ = ToolView(name="read", fits=fits, draw=draw)
