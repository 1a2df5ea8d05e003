"""Searches: matches grouped by file."""

from dashboard.rendering.blocks import MATCHES, Block
from dashboard.tools.base import CallBlocks, Card, RecordedCall, ToolView, answer_blocks, further_values
from dashboard.tools.default import embedded_json
from historyapp.core.text import preview

_PATTERNS = ("pattern", "regex", "search_term", "glob_pattern", "query")
_PLACES = ("path", "glob", "include", "directory", "dir")


def fits(call: RecordedCall) -> bool:
    return call.subject.kind == "search" and bool(call.text_of(*_PATTERNS))


def draw(call: RecordedCall, make: CallBlocks) -> Card:
    name = next(name for name in _PATTERNS if call.text_of(name))
    facts = [preview(fact) for fact in map(call.text_of, _PLACES) if fact]
    card = Card(title=preview(call.text_of(name)), facts=facts)
    card.values = further_values(call, make, name, *_PLACES)
    card.response = answer_blocks(call, make, lambda text, key: _matches(call, make, text, key))
    return card


def _matches(call: RecordedCall, make: CallBlocks, text: str, key: str) -> list[Block]:
    if call.has_failed:
        return [make.response(key, text)]
    value = embedded_json(text)
    return [make.response(key, text, MATCHES) if value is None else make.tree(key, value)]


SEARCH = ToolView(name="search", fits=fits, draw=draw)
