"""JSON: strict for requests, lenient for the files of agents, with one rule for nesting.

msgspec reads and writes most values. If it refuses a value (lone surrogates, NaN, deep nesting, errors), the
standard library is used: no faster parser keeps lone surrogates.
"""

import json
import sys
from collections.abc import Callable
from functools import cache
from json import JSONDecodeError
from math import isfinite
from typing import Any

import msgspec

from historyapp.core.embedded_json import MAX_EMBEDDED_VALUES, holds_too_many_values
from historyapp.core.json_counts import holds_more_containers, holds_more_values
from historyapp.core.json_parts import COMPACT, encode, encoded_parts, without_collections
from historyapp.core.plain_json import PLAIN, is_plain, plain_size
from historyapp.core.standard_json import (
    STRICT,
    InvalidNumber,
    finite,
    is_crowded,
    read_patiently,
    refuse_constant,
)
from historyapp.core.text import clean_value

MAX_DEPTH = 200
"""The deepest nesting of objects and lists in one record. SQLite's own JSON functions stop at 1,000."""
MAX_RECORD_DEPTH = MAX_DEPTH - 20
"""The same for a record that is stored inside another one."""
MAX_VALUES = 1_000_000
"""Values in one body or entry. In memory an empty list takes 20 times its JSON, and each pass through a
million of them takes half a second.
"""
MAX_CONTAINERS = 200_000
"""Lists and objects in one body. The garbage collector visits each of them, which stops all threads: a
million nested lists took it two seconds.
"""
DUMP_ERRORS = (TypeError, ValueError, RecursionError)
"""The exceptions of the functions that write JSON, for a value that JSON cannot represent."""

_LONG = 1 << 18
"""Characters of JSON whose reading or writing would stop all other threads for milliseconds."""

_NUL = b"\\u0000"
_DEL = 0x7F
"""A number, because bytes in bytes are first tried as a number, and the exception for that is dropped."""


class TooDeep(ValueError):
    """The JSON is nested deeper than the limit."""


class TooManyValues(ValueError):
    """The JSON holds more than :data:`MAX_VALUES` values, or more than :data:`MAX_CONTAINERS` lists and
    objects. The text says which.
    """


# Writing

_encode_fast = msgspec.json.Encoder().encode


def _encode_ascii(value: Any) -> bytes:
    """JSON in UTF-8. Ellipses are escaped: with those of previews, half of all values would not be ASCII."""
    dumped = _encode_fast(value)
    return dumped if dumped.isascii() else dumped.replace("…".encode(), b"\\u2026")


def dump_json(value: Any) -> str:
    """Compact JSON in ASCII, so that any text survives any database and any wire.

    Raises:
        TypeError: for a type that JSON does not have, such as bytes and dates.
        ValueError: for NaN and infinities.
        RecursionError: for a value that contains itself.
    """
    is_long = False
    try:
        dumped = _encode_ascii(value)
        is_long = len(dumped) > _LONG
        # msgspec leaves DEL as it is, writes exponents of floats differently, and accepts dates and bytes.
        if dumped.isascii() and _DEL not in dumped and is_plain(value):
            return dumped.decode()
    except DUMP_ERRORS:  # lone surrogates, keys of other types, deep nesting
        is_long = is_larger(value, _LONG)
    return "".join(encoded_parts(value)) if is_long else encode(value)


def dump_plain(value: Any) -> str:
    """As :func:`dump_json`, for a value that holds only texts, integers, booleans and nulls.

    The value is not checked: for a short value, the check takes most of the time.
    """
    try:
        dumped = _encode_ascii(value)
        if dumped.isascii() and _DEL not in dumped:
            return dumped.decode()
    except ValueError:  # lone surrogates
        pass
    return encode(value)


_write_compact = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=COMPACT
).encode


def compact_json(value: Any) -> str:
    """Compact JSON with letters of every script as they are, lone surrogates included."""
    dumped = _encoded_alike(value)
    if dumped is not None:
        return dumped.decode()
    if is_larger(value, _LONG):
        return "".join(encoded_parts(value, _write_compact))
    return _write_compact(value)


def json_text(value: Any) -> str:
    """Compact JSON as a model reads it: letters as they are, NUL and lone surrogates replaced."""
    dumped = _encoded_alike(value)
    if dumped is not None and dumped.find(_NUL) < 0:
        return dumped.decode()
    return compact_json(clean_value(value))


def _encoded_alike(value: Any) -> bytes | None:
    """The JSON of :func:`compact_json` as msgspec writes it; None if it is long or could differ."""
    try:
        return _encode_fast(value) if plain_size(value, _LONG) <= _LONG else None
    except DUMP_ERRORS:  # lone surrogates, deep nesting
        return None


def text_or_json(value: Any) -> str:
    """A text as it is, any other value as JSON with spaces, for people."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# Reading


_decode_fast = msgspec.json.Decoder(float_hook=finite).decode
_decode_object = msgspec.json.Decoder(dict[str, Any], float_hook=finite).decode


# strict=False accepts bare control characters in strings: terminal output contains them.
_EMBEDDED = json.JSONDecoder(parse_float=finite, parse_constant=refuse_constant, strict=False)
_LENIENT = json.JSONDecoder(
    parse_float=lambda number: value if isfinite(value := float(number)) else None,
    parse_constant=lambda _: None,
    strict=False,
)


def load_dumped(dumped: str) -> Any:
    """Reads the output of :func:`dump_json`: as ``json.loads``, but faster.

    Raises:
        ValueError: when it is not JSON.
    """
    if len(dumped) > _LONG:
        return without_collections(_load_dumped, dumped)
    return _load_dumped(dumped)


def _load_dumped(dumped: str) -> Any:
    if is_crowded(dumped):
        return read_patiently(dumped)
    try:
        return _decode_fast(dumped)
    except ValueError:  # lone surrogates
        return STRICT.decode(dumped)


def load_fields(dumped: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Some fields of an object in the output of :func:`dump_json`. No values are created for other fields.

    Raises:
        ValueError: when it is not JSON.
    """
    try:
        read = _fields_decoder(names).decode(dumped)
    except ValueError:  # lone surrogates
        loaded = load_dumped(dumped)
        return {name: loaded[name] for name in names if name in loaded}
    values = {name: getattr(read, name) for name in names}
    return {name: value for name, value in values.items() if value is not msgspec.UNSET}


@cache
def _fields_decoder(names: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    fields = [(name, Any, msgspec.UNSET) for name in names]
    return msgspec.json.Decoder(msgspec.defstruct("Fields", fields), float_hook=finite)


def parse_strict(text: str) -> Any:
    """The value of a JSON text from outside, by the standard.

    Raises:
        JSONDecodeError: when it is not JSON.
        InvalidNumber: for NaN, infinities, and numbers that are too large.
        TooDeep: when it is nested deeper than :data:`MAX_DEPTH`.
        TooManyValues: when it holds more than :data:`MAX_VALUES` or :data:`MAX_CONTAINERS`.
    """
    if holds_more_values(text, MAX_VALUES):
        raise TooManyValues(f"more than {MAX_VALUES:,} JSON values")
    if holds_more_containers(text, MAX_CONTAINERS):
        raise TooManyValues(f"more than {MAX_CONTAINERS:,} lists and objects")
    return _checked(_parse_strict, text, MAX_DEPTH)


def _parse_strict(text: str) -> Any:
    if is_crowded(text):
        return read_patiently(text)
    try:
        return _decode_fast(text)  # accepts fewer texts than the standard parser, with equal results
    except (ValueError, RecursionError):
        return STRICT.decode(text)


def parse_embedded(text: str) -> Any:
    """The value of a JSON text inside a record, such as a tool call's arguments. Accepts control characters.

    Raises:
        ValueError: as :func:`parse_strict`, with the limits :data:`MAX_RECORD_DEPTH` and
            :data:`MAX_EMBEDDED_VALUES`.
    """
    if holds_too_many_values(text):
        raise TooManyValues(f"more than {MAX_EMBEDDED_VALUES:,} JSON values inside texts")
    return _checked(_EMBEDDED.decode, text, MAX_RECORD_DEPTH)


def parse_lenient(text: str) -> Any:
    """The value of a JSON text in an agent's file. NaN, infinities and too large numbers become null.

    Raises:
        ValueError: when it is not JSON, or nested deeper than Python's parser reads.
    """
    return _checked(_LENIENT.decode, text)


def parse_next(text: str, start: int) -> tuple[Any, int]:
    """As :func:`parse_lenient`: the value that begins at ``start``, and the position after it."""
    value: tuple[Any, int] = _checked(lambda text: _LENIENT.raw_decode(text, start), text)
    return value


def parse_object(line: bytes) -> dict[str, Any] | None:
    """The object in a line, parsed as fast as possible.

    None if the line is not an object, or needs :func:`parse_lenient`: because of surrogates, bytes that are
    not UTF-8, or numbers that are too large.
    """
    try:
        record: dict[str, Any] = _decode_object(line)
    except (ValueError, RecursionError):
        return None
    return record


def _checked(parse: Callable[[str], Any], text: str, limit: int | None = None) -> Any:
    try:
        value = without_collections(parse, text) if len(text) > _LONG else parse(text)
    except (JSONDecodeError, InvalidNumber):
        raise
    except RecursionError:
        raise TooDeep("nested too deep") from None
    except ValueError:  # Python's parser raises no other ValueError
        digits = f"{sys.get_int_max_str_digits():,}"
        raise InvalidNumber(f"an integer of more than {digits} digits") from None
    if limit is not None and nested_deeper(value, text, limit):
        raise TooDeep("nested too deep")
    return value


# Values of unknown type


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is an object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """The value if it is a list, otherwise an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """The value if it is text, otherwise an empty one."""
    return value if isinstance(value, str) else ""


# Nesting and length


def nested_deeper(value: Any, source: str | bytes, limit: int) -> bool:
    """As :func:`depth_exceeds`, for a value that was read from ``source``.

    Most values have so few brackets that the slower check is not needed.
    """
    if isinstance(source, str):
        brackets = _count_up_to(limit + 1, "{", source) + _count_up_to(limit + 1, "[", source)
    else:
        brackets = len(source) - len(source.translate(None, b"{["))
    return brackets > limit and depth_exceeds(value, limit)


def _count_up_to(limit: int, character: str, text: str) -> int:
    """The number of times that a text contains a character, at most ``limit``.

    ``str.count`` takes ten times as long for a long text, because it compares each character.
    """
    count, place = 0, text.find(character)
    while place >= 0 and count < limit:
        count, place = count + 1, text.find(character, place + 1)
    return count


def is_larger(value: Any, limit: int) -> bool:
    """Whether the texts and values of a value have more than ``limit`` characters together. Takes time in
    proportion to the limit.
    """
    shortest, pending, end = 0, [iter([value])], object()
    while pending and shortest <= limit:
        item = next(pending[-1], end)
        if item is end:
            pending.pop()
            continue
        shortest += len(item) if isinstance(item, str) else 1  # without quotes, escapes and commas
        if isinstance(item, dict):
            pending += [iter(item), iter(item.values())]
        elif isinstance(item, (list, tuple)):
            pending.append(iter(item))
    return shortest > limit


def is_longer(value: Any, limit: int) -> bool:
    """Whether the value's JSON as :func:`dump_json` writes it has more than ``limit`` characters.

    The time depends on the limit, not on the value: writing 30 MB of JSON blocks all threads for a second.
    """
    return is_larger(value, limit) or len(dump_json(value)) > limit


def depth_exceeds(value: Any, limit: int = MAX_DEPTH) -> bool:
    """Whether lists and objects are nested deeper than ``limit``, found without recursion."""
    level: list[Any] = [[value]]
    for _ in range(limit + 1):
        level = [
            item
            for parent in level
            for item in (parent.values() if isinstance(parent, dict) else parent)
            if type(item) not in PLAIN and isinstance(item, (dict, list, tuple))
        ]
        if not level:
            return False
    return True
