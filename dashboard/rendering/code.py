"""Source code with classes for its parts; the colours are in ``static/css/code.css``."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import PurePosixPath
from time import thread_time

import pygments
from django.utils.safestring import SafeString, mark_safe
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name
from pygments.lexers.shell import BashLexer
from pygments.token import Token, _TokenType
from pygments.util import ClassNotFound

from dashboard.rendering.text import MAX_COLUMN, visible

SECONDS = 0.2
"""The limit for colouring one text, in seconds of processor time. The rest is shown without colours."""
PART = 2_000
"""Characters that a lexer reads at once. Many lexers take quadratic time for a single token of hostile text:
a tenth of a second for this part, half a minute for a whole block, and nothing can interrupt it."""
LANGUAGES = frozenset({
    "bash", "c", "cpp", "css", "diff", "go", "html", "ini", "java", "javascript", "json", "make",
    "markdown", "python", "ruby", "rust", "scss", "sql", "toml", "typescript", "xml", "yaml",
})  # fmt: skip
"""Languages with colours: their lexers have been tried on hostile text. pygments has 500 more."""
MAX_PATH = 300
"""The number of characters at the end of a path that are looked at."""
WHOLE = ("json",)
"""Languages whose lexers need no parts: they look at each character once."""
_LINEAR = {
    r"(?s)\$'(\\\\|\\[0-7]+|\\.|[^'\\])*'": r"(?s)\$'(?:\\.|[^'\\])*+'",
    r"<<-?\s*(\'?)\\?(\w+)[\w\W]+?\2": r"<<-?\s*(\'?)\\?(\w++)[\w\W]+?\2",
}
"""Patterns of pygments' lexer for shells that take exponential and cubic time, and what replaces them. Sixty
backslashes after ``$'`` blocked the process for ever."""
_FORMATTER: HtmlFormatter[str] = HtmlFormatter(nowrap=True)


# In the class itself, because other lexers, as those of Makefiles, use it.
BashLexer.tokens = {
    state: [(_LINEAR.get(rule[0], rule[0]), *rule[1:]) if isinstance(rule, tuple) else rule for rule in rules]
    for state, rules in BashLexer.tokens.items()
}


def highlighted(code: str, language: str) -> SafeString:
    """Code as HTML. The text does not have to be valid in its language."""
    text = visible(code)
    # Code blocks within Markdown may name any language.
    lexer = get_lexer_by_name(language, handlecodeblocks=False)
    tokens = _tokens(lexer, text if text.endswith("\n") else f"{text}\n")
    html: str = pygments.format(_with_plain_ends(tokens), _FORMATTER)
    return mark_safe(html)  # noqa: S308 the formatter escapes


def _tokens(lexer: Lexer, text: str) -> Iterator[tuple[_TokenType, str]]:
    deadline = thread_time() + SECONDS
    start, part = 0, len(text) if lexer.aliases[0] in WHOLE else PART
    while start < len(text):
        end = text.rfind("\n", start, start + part) + 1 or start + part
        for index, kind, value in lexer.get_tokens_unprocessed(text[start:end]):
            if thread_time() > deadline:
                yield Token.Text, text[start + index :]
                return
            yield kind, value
        start = end


def _with_plain_ends(tokens: Iterator[tuple[_TokenType, str]]) -> Iterator[tuple[_TokenType, str]]:
    """The tokens; those that begin after :data:`MAX_COLUMN` characters of a line without their colours."""
    column = 0
    for kind, value in tokens:
        yield (kind if column <= MAX_COLUMN else Token.Text), value
        _, end, last = value.rpartition("\n")
        column = len(last) if end else column + len(value)


def language_of(path: str) -> str:
    """The language of a file by its name; ``text`` if it is unknown or has no colours here."""
    return _language_of(path[-MAX_PATH:])  # a cache must not hold paths of any length


@lru_cache(maxsize=256)
def _language_of(path: str) -> str:
    name = PurePosixPath(path.replace("\\", "/")).name
    try:
        lexer = find_lexer_class_for_filename(visible(name))
    except ClassNotFound:
        return "text"
    language = lexer.aliases[0] if lexer and lexer.aliases else "text"
    return language if language in LANGUAGES else "text"
