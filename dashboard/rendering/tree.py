"""JSON as a tree that opens and closes, with lists of similar objects as tables. Beyond its limits, it is
text."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dashboard.rendering.text import visible
from historyapp.core.json import json_text

MAX_NODES = 150
"""The maximum number of values of a tree that are drawn."""
MAX_CHARACTERS = 500
"""The maximum number of characters drawn of one text."""
_READ = 8 * MAX_CHARACTERS
"""Characters that are read of one text. Escape sequences among them are not drawn."""
MAX_DEPTH = 8
"""The levels of a tree that are drawn."""
OPEN_LEVELS = 2
"""The levels that are open at first."""
MAX_COLUMNS, MAX_ROWS = 10, 30


class Tree:
    """Draws one value."""

    def __init__(self, characters: int) -> None:
        self.characters = characters
        """The number of characters that may still be drawn."""
        self.nodes = MAX_NODES
        self.is_whole = True
        """Whether everything so far was drawn."""

    def draw(self, value: Any, depth: int = 0) -> str:
        """HTML of a value."""
        self.nodes -= 1
        if isinstance(value, Mapping) and value:
            return self._branch(value.items(), depth)
        if isinstance(value, list) and value:
            columns = _columns(value)
            return self._table(value, columns) if columns else self._branch(enumerate(value), depth)
        return self._scalar(value)

    def _scalar(self, value: Any) -> str:
        raw = value if isinstance(value, str) else json_text(value)
        text = visible(raw[:_READ])
        shown = text[: max(0, min(MAX_CHARACTERS, self.characters))]
        self.characters -= len(shown)
        if len(shown) < len(text) or len(raw) > _READ:
            self.is_whole = False
            shown = f"{shown}…"
        kind = "text" if isinstance(value, str) else "other"
        return f'<span class="json-{kind}" dir="auto">{escape(shown)}</span>'

    def _branch(self, items: Iterable[tuple[Any, Any]], depth: int) -> str:
        rows = []
        for key, value in items:
            if depth >= MAX_DEPTH or self.nodes <= 0 or self.characters <= 0:
                self.is_whole = False
                rows.append("<li>…</li>")
                break
            name = visible(str(key)[:_READ])[:MAX_CHARACTERS]
            self.characters -= len(name)
            rows.append(self._item(escape(name), value, depth))
        return f'<ul class="json">{"".join(rows)}</ul>'

    def _item(self, name: str, value: Any, depth: int) -> str:
        drawn = self.draw(value, depth + 1)
        if isinstance(value, (Mapping, list)) and value:
            size = f"{{{len(value):,}}}" if isinstance(value, Mapping) else f"[{len(value):,}]"
            opened = " open" if depth + 1 < OPEN_LEVELS else ""
            summary = f"<summary><b>{name}</b> <i>{size}</i></summary>"
            return f"<li><details{opened}>{summary}{drawn}</details></li>"
        return f"<li><b>{name}</b> {drawn}</li>"

    def _table(self, rows: list[Mapping[str, Any]], columns: Sequence[str]) -> str:
        heads = "".join(f'<th scope="col">{escape(visible(name[:_READ])[:80])}</th>' for name in columns)
        self.characters -= sum(len(name[:80]) for name in columns)
        drawn: list[str] = []
        for row in rows:
            if len(drawn) == MAX_ROWS or self.nodes <= 0 or self.characters <= 0:
                self.is_whole = False
                break
            self.nodes -= 1
            cells = (self._scalar(row[name]) if name in row else "" for name in columns)
            drawn.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(drawn)}</tbody></table>"


def _columns(rows: list[Any]) -> tuple[str, ...]:
    """The columns of a list of similar flat objects. Empty if the list is not a table."""
    first = rows[0]
    if len(rows) < 2 or not isinstance(first, Mapping) or not 1 < len(first) <= MAX_COLUMNS:
        return ()
    for row in islice(rows, MAX_ROWS + 1):
        is_flat = isinstance(row, Mapping) and not any(isinstance(v, (Mapping, list)) for v in row.values())
        if not is_flat or not row.keys() <= first.keys():
            return ()
    if not all(isinstance(row, Mapping) for row in rows):
        return ()
    return tuple(first)


def tree(value: Any, characters: int) -> tuple[SafeString, bool]:
    """HTML of a value in about ``characters`` characters of text, and whether all of it was drawn."""
    drawing = Tree(characters)
    html = drawing.draw(value)
    return mark_safe(f'<div class="tree">{html}</div>'), drawing.is_whole  # noqa: S308 all is escaped
