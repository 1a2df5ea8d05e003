"""Web pages and web searches: the address or query, and the result as Markdown or as a list."""

from collections.abc import Mapping

from dashboard.rendering.blocks import MARKDOWN, TERMINAL, Block
from dashboard.rendering.prose import is_markdown
from dashboard.tools.base import CallBlocks, Card, RecordedCall, ToolView, answer_blocks, further_values
from historyapp.core.text import preview

_TARGETS = ("url", "uri", "href", "query")


def fits(tool_call: RecordedCall) -> bool:
    return tool_call.subject.kind == "web" and bool(tool_call.text_of(*_TARGETS))


def draw(tool_call: RecordedCall, make: CallBlocks) -> Card:
    name = next(name for name in _TARGETS if tool_call.text_of(name))
    card = Card(title=preview(tool_call.text_of(name)))
    card.values = further_values(tool_call, make, name)
    pages = _found_pages(tool_call)
    if pages:
        card.facts.append(f"{len(pages)} pages found")
        card.response = [make.response("pages", "\n".join(pages))]
    else:
        card.response = answer_blocks(tool_call, make, lambda text, key: prose(make, text, key))
    return card


def prose(make: CallBlocks, text: str, key: str) -> list[Block]:
    """A text of a response, rendered if it is Markdown."""
    return [make.response(key, text, MARKDOWN if is_markdown(text) else TERMINAL)]


def _found_pages(tool_call: RecordedCall) -> list[str]:
    """Title and address of each page that a search found; empty if the result has another shape."""
    if not isinstance(tool_call.outputs, list):
        return []
    pages = [
        page for page in tool_call.outputs if isinstance(page, Mapping) and isinstance(page.get("url"), str)
    ]
    if len(pages) < len(tool_call.outputs):
        return []
    return [f"{page.get('title') or 'Untitled'}\n  {page['url']}" for page in pages]


WEB = ToolView(name="web", fits=fits, draw=draw)
