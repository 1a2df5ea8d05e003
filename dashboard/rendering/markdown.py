"""Markdown of final answers. No raw HTML, no images, and only http and https links."""

import re
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import nh3
from django.utils.safestring import SafeString, mark_safe

from dashboard.rendering.text import visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h4", "h5", "h6", "hr", "li", "ol", "p",
    "pre", "s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
MIN_CELLS, CHARACTERS_PER_CELL = 1_000, 2
"""A text has at most so many cells in its tables, or as many as somebody can write in so many characters:
markdown-it adds the missing cells of each row. 24 tables of 500 columns, 61 KB, took 3.5 GB."""
MAX_ROW = 3_000
"""The maximum length of a row of a table. Browsers lay a long word out in quadratic time where its column has
no room: 58,000 full-width brackets in one of 120 columns took 15 seconds."""
MIN_LINKS = 4_000
"""The addresses and titles of links have at most so many characters, or as many as the text would have if
each of its bytes was written as in an address (``%D0``). 7,000 references to one address of 29,000
characters, 61 KB, were 203 MB of HTML."""
MAX_MARKED = 2_000
"""A paragraph with more marked parts, as `code`, is shown as text. Browsers take seconds for 15,000."""
_DELIMITERS = re.compile(r"^[-:| \t>]{2,}+$", re.MULTILINE)
"""The line below the heads of a table. It has all columns. The table ends at a blank line at the latest."""

_BLANK = re.compile(r"\n[ \t>]*+\n")


@cache
def _parser(*disabled: str) -> "MarkdownIt":
    from markdown_it import MarkdownIt  # 3 MB that an idle server does not need

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return parser.disable(list(disabled))


def _has_long_rows(tokens: "list[Token]") -> bool:
    length = 0
    for previous, token in pairwise(tokens):
        if token.type == "tr_open":
            length = 0
        elif previous.type in ("th_open", "td_open"):
            length += len(token.content)
            if length > MAX_ROW:
                return True
    return False


def _has_too_many_cells(text: str) -> bool:
    cells, limit = 0, max(MIN_CELLS, len(text) // CHARACTERS_PER_CELL)
    counted_to = rows = 0
    end = -1
    for line in _DELIMITERS.finditer(text):
        if line.end() > end:
            blank = _BLANK.search(text, line.end())
            end = blank.start() if blank else len(text)
            rows = text.count("\n", line.end(), end)
        else:  # the same table: searching and counting again would take more than linear time
            rows -= text.count("\n", counted_to, line.end())
        counted_to = line.end()
        cells += (line[0].strip("> \t|").count("|") + 1) * rows
        if cells > limit:
            return True
    return False


def _has_too_long_links(tokens: "list[Token]", length: int) -> bool:
    links = (child.attrs.values() for token in tokens for child in token.children or () if child.attrs)
    return sum(len(str(value)) for values in links for value in values) > max(MIN_LINKS, length)


def _text(content: str) -> "Token":
    from markdown_it.token import Token

    return Token("text", "", 0, content=content)


def _is_overloaded(paragraph: "Token") -> bool:
    marked = (child for child in paragraph.children or () if child.type not in ("text", "softbreak"))
    return sum(child.nesting >= 0 for child in marked) > MAX_MARKED


def markdown(text: str) -> SafeString:
    """Sanitised HTML. The sanitiser is a second barrier, in case the parser lets raw HTML through.

    Tables with far more cells, and references with far longer links, than the text has remain text,
    and so do paragraphs with very many marked parts.
    """
    text = visible(text)
    disabled = ["table"] if _has_too_many_cells(text) else []
    parser = _parser(*disabled)
    tokens = parser.parse(text)
    if _has_long_rows(tokens):
        disabled = ["table"]
        parser = _parser(*disabled)
        tokens = parser.parse(text)
    if _has_too_long_links(tokens, 3 * len(text.encode())):
        parser = _parser("reference", *disabled)
        tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):  # below the page's own headings
            token.tag = f"h{min(6, int(token.tag[1]) + 3)}"
        elif _is_overloaded(token):
            token.children = [_text(token.content)]
    html = nh3.clean(
        parser.renderer.render(tokens, parser.options, {}),
        tags=_TAGS,
        attributes={"a": {"href", "title"}, "ol": {"start"}},
        url_schemes={"http", "https"},
        url_relative="deny",
        link_rel="noopener nofollow",
    )
    return mark_safe(html)  # noqa: S308 sanitised
