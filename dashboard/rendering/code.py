"""Source code with classes for its parts; the colours are in ``static/css/code.css``."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import PurePosixPath
from time import monotonic

import pygments
from django.utils.safestring import SafeString, mark_safe
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name
from pygments.token import Token, _TokenType
from pygments.util import ClassNotFound

from dashboard.rendering.text import visible

SECONDS = 0.2
"""Lexers can take quadratic time on hostile text. After this time the rest is shown without colours."""
_FORMATTER: HtmlFormatter[str] = HtmlFormatter(nowrap=True)


def highlighted(code: str, language: str) -> SafeString:
    """Code as HTML. The text does not have to be valid in its language."""
    text = visible(code)
    lexer = get_lexer_by_name(language)
    html: str = pygments.format(_tokens(lexer, text if text.endswith("\n") else f"{text}\n"), _FORMATTER)
    return mark_safe(html)  # noqa: S308 the formatter escapes


def _tokens(lexer: Lexer, text: str) -> Iterator[tuple[_TokenType, str]]:
    deadline = monotonic() + SECONDS
    for index, kind, value in lexer.get_tokens_unprocessed(text):
        if monotonic() > deadline:
            yield Token.Text, text[index:]
            return
        yield kind, value


@lru_cache(maxsize=256)
def language_of(path: str) -> str:
    """The language of a file by its name; ``text`` if it is unknown."""
    name = PurePosixPath(path.replace("\\", "/")[-300:]).name
    try:
        lexer = find_lexer_class_for_filename(visible(name))
    except ClassNotFound:
        return "text"
    return lexer.aliases[0] if lexer and lexer.aliases else "text"
