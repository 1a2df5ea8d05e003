"""Source code with classes for its parts; the colours are in ``static/css/code.css``."""

from functools import lru_cache
from pathlib import PurePosixPath

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name
from pygments.util import ClassNotFound

from dashboard.rendering.text import visible

LIMIT = 20_000
"""Characters; longer pieces are shown without colours, since no lexer promises to be fast."""
_FORMATTER: HtmlFormatter[str] = HtmlFormatter(nowrap=True)


def highlighted(code: str, language: str) -> SafeString:
    """Code as HTML. Any text is fine, whether it is valid in its language or not."""
    text = visible(code)
    if len(text) > LIMIT:
        return escape(text)
    lexer = get_lexer_by_name(language, stripnl=False)
    html: str = highlight(text, lexer, _FORMATTER)
    return mark_safe(html)  # noqa: S308 the formatter escapes


@lru_cache(maxsize=256)
def language_of(path: str) -> str:
    """The language of a file by its name; ``text`` where that tells nothing."""
    name = PurePosixPath(path.replace("\\", "/")[-300:]).name
    try:
        lexer = find_lexer_class_for_filename(visible(name))
    except ClassNotFound:
        return "text"
    return lexer.aliases[0] if lexer and lexer.aliases else "text"
