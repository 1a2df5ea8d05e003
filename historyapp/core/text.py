"""Cleans and shortens the text of agents, which may be any Python string.

Agents record file names and terminal output that are not valid Unicode. pydantic's own ``str`` refuses
lone surrogates, so the log's fields use :data:`Text`, which takes every ``str`` as it is. It is stored
as JSON with ASCII escapes, which every database accepts; columns that people search use :func:`clean`.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import GetPydanticSchema
from pydantic_core import core_schema

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
PIECE_LENGTH = 1 << 16
"""Characters of a text that one call splits, matches or replaces. No other thread of the process runs during
it, and its result, or a long run that a pattern matches, takes about a hundred times the text's memory."""
MAX_READ = 300_000
"""Characters of a tool call's or a result's text whose form is read: JSON, patches, numbered lines. A longer
text is shown as it is, in parts. Harnesses shorten results to 100,000 characters or fewer.
"""
_SEQUENCE, _MAX_SEQUENCE = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]"), 23
"""An escape sequence for colours, and its maximum number of characters."""


_ANY_TEXT = core_schema.json_or_python_schema(
    json_schema=core_schema.str_schema(),
    python_schema=core_schema.custom_error_schema(core_schema.is_instance_schema(str), "string_type"),
)
Text = Annotated[str, GetPydanticSchema(lambda _type, _handler: _ANY_TEXT)]


def clean(text: str) -> str:
    """The text with NUL and lone surrogates replaced by U+FFFD, as text columns of databases require."""
    if text.isascii() and "\0" not in text:
        return text
    if len(text) <= PIECE_LENGTH:
        return _UNSTORABLE.sub("\ufffd", text)
    starts = range(0, len(text), PIECE_LENGTH)
    if not any(_UNSTORABLE.search(text, start, start + PIECE_LENGTH) for start in starts):
        return text  # without a copy: with an emoji in it, each character takes four bytes
    return "".join(_UNSTORABLE.sub("\ufffd", text[start : start + PIECE_LENGTH]) for start in starts)


def decode_surrogates(raw: bytes) -> str:
    """The text of UTF-8 with lone surrogates, as ``surrogatepass`` writes it.

    Python calls an error handler for each lone surrogate, so the bytes are decoded in pieces: of 28 million
    surrogates, one call took 3.5 s.
    """
    pieces, start = list[str](), 0
    while start < len(raw):
        end = start + PIECE_LENGTH
        while end < len(raw) and raw[end] & 0b11000000 == 0b10000000:  # within a character
            end += 1
        pieces.append(raw[start:end].decode("utf-8", "surrogatepass"))
        start = end
    return "".join(pieces)


def fold(text: str) -> str:
    """The text for case-insensitive search in every script."""
    return text.casefold()


def clean_value(value: Any) -> Any:
    """A JSON value with every text in it cleaned, for transports that refuse invalid Unicode."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        cleaned = {}
        for name, item in value.items():
            # Most texts are ASCII: for these, a call takes most of the time.
            if not name.isascii() or "\0" in name:
                name = clean(name)
            is_clean = type(item) is str and item.isascii() and "\0" not in item
            cleaned[name] = item if is_clean else clean_value(item)
        return cleaned
    return [clean_value(item) for item in value] if isinstance(value, (list, tuple)) else value


def preview(text: str, length: int = 200) -> str:
    """The first ``length`` characters on one line, for lists that never load bodies."""
    if len(text) <= length and text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()  # most names and paths: printable ASCII has no white space but spaces
    head = text[: length + 50]
    is_one_line = head.isprintable() and "  " not in head
    head = head.strip() if is_one_line else " ".join(head.split())
    if len(head) > length:
        shown = head[: length - 1]
        return f"{shown if is_one_line else clean(shown)}…"  # printable text has no surrogates and no NUL
    if length < len(text):  # there may be more text after a long run of white space
        head = " ".join(text[: length * 4].split())
    return clean(head) if len(head) <= length else clean(head[: length - 1]) + "…"


def whole_lines(text: str) -> Iterator[str]:
    """The lines of a text, as ``split`` gives them, but never all of a long text at once."""
    start = 0
    while len(text) - start > PIECE_LENGTH:
        end = text.rfind("\n", start, start + PIECE_LENGTH)
        end = text.find("\n", start + PIECE_LENGTH) if end < 0 else end
        if end < 0:
            break
        yield from text[start:end].split("\n")
        start = end + 1
    yield from text[start:].split("\n")


def without_colours(text: str) -> str:
    """The text without the escape sequences for terminal colours. Long texts are read in pieces."""
    if "\x1b" not in text:
        return text
    pieces, start = list[str](), 0
    while start < len(text):
        end = start + PIECE_LENGTH
        last = text.rfind("\x1b", max(start, end - _MAX_SEQUENCE), end)
        if last >= 0 and (sequence := _SEQUENCE.match(text, last)):
            end = max(end, sequence.end())
        pieces.append(_SEQUENCE.sub("", text[start:end]))
        start = end
    return "".join(pieces)


def fenced(text: str, language: str = "") -> str:
    """A Markdown code block that nothing in the text can end."""
    fence = "`" * max(3, most_backticks(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def most_backticks(text: str) -> int:
    """The length of the longest run of backticks. Takes no memory for the others, of which a text may have
    millions.
    """
    contained, absent = 0, 1
    while "`" * absent in text:
        contained, absent = absent, 2 * absent
    while absent - contained > 1:
        between = (contained + absent) // 2
        if "`" * between in text:
            contained = between
        else:
            absent = between
    return contained
