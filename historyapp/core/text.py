"""Text as agents write it: any Python string, lone surrogates and NUL included.

Agents record file names and terminal output that are not valid Unicode. pydantic's own ``str`` refuses
lone surrogates, so the log's fields use :data:`Text`, which takes every ``str`` as it is. In storage such
text is JSON with ASCII escapes, which no database objects to; columns that people search use :func:`clean`.
"""

import json
import re
from collections.abc import Callable, Iterable
from json import encoder
from typing import Annotated, Any

import msgspec
from pydantic import GetPydanticSchema
from pydantic_core import core_schema

MAX_DEPTH = 200
"""Deepest nesting of objects and lists accepted in one record; SQLite's own JSON functions stop at 1,000."""

# Writes what the fast encoder would write otherwise. JSONEncoder makes one of these for every value, which
# costs small values more than encoding them does.
_Encoder = Callable[[Any, int], Iterable[str]]
_encode: _Encoder = encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, json.JSONEncoder().default, encoder.encode_basestring_ascii, None, ":", ",", False, False, False
)
_encode_fast = msgspec.json.Encoder().encode
_decode_fast = msgspec.json.Decoder().decode
_PLAIN = {str, int, bool, type(None)}
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


_ANY_TEXT = core_schema.json_or_python_schema(
    json_schema=core_schema.str_schema(),
    python_schema=core_schema.custom_error_schema(core_schema.is_instance_schema(str), "string_type"),
)
Text = Annotated[str, GetPydanticSchema(lambda _type, _handler: _ANY_TEXT)]


def clean(text: str) -> str:
    """The text with NUL and lone surrogates replaced by U+FFFD, as a database text column wants it."""
    if text.isascii() and "\0" not in text:
        return text
    return _UNSTORABLE.sub("\ufffd", text)


def fold(text: str) -> str:
    """The text as a search compares it: the same for capital and small letters of every script."""
    return text.casefold()


def clean_value(value: Any) -> Any:
    """A JSON value with every text in it cleaned, for wires that refuse what is not Unicode."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(name): clean_value(item) for name, item in value.items()}
    return [clean_value(item) for item in value] if isinstance(value, (list, tuple)) else value


def preview(text: str, length: int = 200) -> str:
    """The first ``length`` characters on one line, for lists that never load bodies."""
    head = " ".join(text[: length + 50].split())
    if len(head) <= length < len(text):  # white space left less than enough
        head = " ".join(text[: length * 4].split())
    return clean(head) if len(head) <= length else clean(head[: length - 1]) + "…"


def dump_json(value: Any) -> str:
    """Compact JSON in ASCII, so that any text survives any database and any wire.

    Raises:
        TypeError: for what JSON has no word for, as bytes and dates.
        ValueError: for NaN and infinities, for which it has none either.
        RecursionError: for a value that holds itself.
    """
    try:
        dumped = _encode_fast(value)
        # msgspec leaves DEL as it is, writes the exponents of floats in its own way, and dates and bytes
        # without being asked.
        if dumped.isascii() and b"\x7f" not in dumped and _is_plain(value):
            return dumped.decode("ascii")
    except (ValueError, TypeError, RecursionError):  # lone surrogates, odd keys, deep nesting
        pass
    return "".join(_encode(value, 0))


def _is_plain(value: Any) -> bool:
    """Whether it holds only texts, truth values, nulls, and numbers that are written without an exponent."""
    kind = type(value)
    if kind is dict:
        for name, item in value.items():
            if type(name) is not str or (type(item) not in _PLAIN and not _is_plain(item)):
                return False
        return True
    if kind is list or kind is tuple:
        return all(type(item) in _PLAIN or _is_plain(item) for item in value)
    return kind in _PLAIN or (kind is float and (value == 0 or 1e-4 <= abs(value) < 1e16))


def load_dumped(dumped: str) -> Any:
    """What ``json.loads`` reads in it, only faster.

    Raises:
        ValueError: when it is not JSON.
    """
    try:
        return _decode_fast(dumped)
    except ValueError:  # lone surrogates
        return json.loads(dumped)


def depth_exceeds(value: Any, limit: int = MAX_DEPTH) -> bool:
    """Whether lists and objects are nested deeper than ``limit``, found without recursion."""
    level = [value]
    for _ in range(limit):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, (list, tuple)):
                below.extend(item)
        level = [item for item in below if isinstance(item, (dict, list, tuple))]
        if not level:
            return False
    return True


def fenced(text: str, language: str = "") -> str:
    """A Markdown code block that nothing in the text can end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
