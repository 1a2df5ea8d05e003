"""Python's own JSON decoder, which keeps lone surrogates, with rules for numbers and for very many values.

One call of a C parser reads all values of a text while all other threads wait. Python's own scanner takes ten
times as long for many values, but other threads run meanwhile.
"""

import json
from json.scanner import py_make_scanner  # type: ignore[attr-defined]  # the stubs do not know it
from math import isfinite
from typing import Any

from historyapp.core.json_counts import MANY_VALUES


class InvalidNumber(ValueError):
    """A number that JSON or Python's parser allows, and that databases cannot store."""


class _OtherDigits(Exception):
    """The text has digits of other scripts, which Python's own scanner takes for digits of JSON."""


def finite(text: str) -> float:
    """Reads a number with a fraction or an exponent. For one such as ``1e308``, msgspec's own function takes
    10 µs, Python's 0.2 µs. Other threads can run between two calls of this one.
    """
    value = float(text)
    if not isfinite(value):
        raise InvalidNumber("a number that is too large for a double")
    return value


def refuse_constant(name: str) -> Any:
    """Refuses ``NaN`` and infinities."""
    raise InvalidNumber(f"{name}, which is not valid JSON")


def _of_ascii(text: str) -> str:
    if not text.isascii():
        raise _OtherDigits
    return text


STRICT = json.JSONDecoder(parse_float=finite, parse_constant=refuse_constant)
_PATIENT = json.JSONDecoder(
    parse_float=lambda text: finite(_of_ascii(text)),
    parse_int=lambda text: int(_of_ascii(text)),
    parse_constant=refuse_constant,
)
_PATIENT.scan_once = py_make_scanner(_PATIENT)  # type: ignore[attr-defined]


def is_crowded(text: str) -> bool:
    """Whether a text may have so many values that one call would read them for more than 0.1 s."""
    return len(text) > 2 * MANY_VALUES and text.count(",") > MANY_VALUES


def read_patiently(text: str) -> Any:
    """The value of a crowded text, as :data:`STRICT` reads it."""
    try:
        return _PATIENT.decode(text)
    except _OtherDigits:
        return STRICT.decode(text)  # raises the error with its place
