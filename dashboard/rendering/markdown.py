"""Markdown of final answers. No raw HTML, no images, no links but to the web."""

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

from dashboard.rendering.text import visible

_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p",
    "pre", "s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip


def markdown(text: str) -> SafeString:
    """Sanitised HTML. What the parser let through by mistake, the sanitiser drops."""
    html = nh3.clean(
        _PARSER.render(visible(text)),
        tags=_TAGS,
        attributes={"a": {"href", "title"}, "ol": {"start"}},
        url_schemes={"http", "https"},
        url_relative="deny",
        link_rel="noopener nofollow",
    )
    return mark_safe(html)  # noqa: S308 sanitised
