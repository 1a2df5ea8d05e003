"""Searches: matches grouped by file."""

from dashboard.rendering.blocks import MATCHES, Block
from dashboard.tools.base import CallBlocks, Card, RecordedCall, ToolView, answer_blocks, further_values
from dashboard.tools.default import embedded_json
from historyapp.core.text import preview

_PATTERNS = ("pattern", "regex", "search_term", "glob_pattern", "query")
_PLACES = ("path", "glob", "include", "directory", "dir")


def fits(tool_call: RecordedCall) -> bool:
    return tool_call.subject.kind == "search" and bool(tool_call.text_of(*_PATTERNS))


def draw(tool_call: RecordedCall, make: CallBlocks) -> Card:
    name = next(name for name in _PATTERNS if tool_call.text_of(name))
    facts = [preview(fact) for fact in map(tool_call.text_of, _PLACES) if fact]
    card = Card(title=preview(tool_call.text_of(name)), facts=facts)
    card.values = further_values(tool_call, make, name, *_PLACES)
    card.response = answer_blocks(tool_call, make, lambda text, key: _matches(tool_call, make, text, key))
    return card


def _matches(tool_call: RecordedCall, make: CallBlocks, text: str, key: str) -> list[Block]:
    if tool_call.has_failed:
        return [make.response(key, text)]
    value = embedded_json(text)
    return [make.response(key, text, MATCHES) if value is None else make.tree(key, value)]


SEARCH = ToolView(name="search", fits=fits, draw=draw)
