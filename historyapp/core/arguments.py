"""The arguments of a tool call, which providers give as an object or as JSON text."""

import json
from math import isfinite
from typing import Any

from historyapp.core.text import MAX_DEPTH, depth_exceeds

MAX_RECORD_DEPTH = MAX_DEPTH - 20
"""Levels of what is wrapped a few levels deeper when it is stored."""


def arguments_of(raw: Any) -> Any:
    """A tool call's arguments as the log wants them: an object, or the raw text that is no JSON object.

    Providers give an object or a JSON string; nothing at all means no arguments.
    """
    if raw is None or raw == "":
        return {}
    if not isinstance(raw, str):
        return raw
    try:
        value = parse_json(raw)
    except ValueError:
        return raw
    return value if isinstance(value, dict) else raw


def parse_json(text: str) -> Any:
    """The value that ``text`` holds as JSON and nothing else, no deeper than :data:`MAX_RECORD_DEPTH`.

    Raises:
        ValueError: when it is not JSON (NaN and infinities included), or nested too deep.
    """
    try:
        value = _STRICT.decode(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    # Counting brackets first spares most texts the walk.
    brackets = text.count("{") + text.count("[")
    if brackets > MAX_RECORD_DEPTH and depth_exceeds(value, MAX_RECORD_DEPTH):
        raise ValueError("nested too deep")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


# strict=False lets bare control characters stand in strings: terminal output brings them along.
_STRICT = json.JSONDecoder(parse_float=_finite, parse_constant=_finite, strict=False)
