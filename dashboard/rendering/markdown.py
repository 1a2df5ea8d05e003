"""Markdown of final answers. No raw HTML, no images, and only http and https links."""

from functools import cache
from typing import TYPE_CHECKING

import nh3
from django.utils.safestring import SafeString, mark_safe

from dashboard.rendering.text import visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h4", "h5", "h6", "hr", "li", "ol", "p",
    "pre", "s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # 3 MB that an idle server does not need

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def markdown(text: str) -> SafeString:
    """Sanitised HTML. The sanitiser is a second barrier, in case the parser lets raw HTML through."""
    parser = _parser()
    tokens = parser.parse(visible(text))
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):  # below the page's own headings
            token.tag = f"h{min(6, int(token.tag[1]) + 3)}"
    html = nh3.clean(
        parser.renderer.render(tokens, parser.options, {}),
        tags=_TAGS,
        attributes={"a": {"href", "title"}, "ol": {"start"}},
        url_schemes={"http", "https"},
        url_relative="deny",
        link_rel="noopener nofollow",
    )
    return mark_safe(html)  # noqa: S308 sanitised
