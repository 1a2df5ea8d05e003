"""Text of agents, made safe to print: a control sequence could retitle, overwrite or script the terminal.

pydantic alone takes 250 ms to load, so this module does not use :mod:`historyapp.core.text`, which needs it.
"""

import json
import re
from typing import Any

_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,40}m")
_CONTROLS = {*range(0x20), 0x7F, *range(0x80, 0xA0)} - {0x0A}
_INVISIBLE = {0x061C, 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF}
"""Characters that change the direction or the order of text, line separators, and invisible characters."""
_TABLE: dict[int, str] = {
    **dict.fromkeys(_CONTROLS | _INVISIBLE, "\ufffd"),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),  # lone surrogates cannot be encoded for a terminal
    **dict.fromkeys(range(0xE0000, 0xE0080), "\ufffd"),
    0x09: "    ",
}
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def safe_text(text: str) -> str:
    """The text with its line breaks. Every other control character becomes U+FFFD.

    Sequences that only set a colour are removed, because programs print many of them.
    """
    if text.isascii() and text.isprintable():
        return text
    return _COLOUR.sub("", text.replace("\r\n", "\n")).translate(_TABLE)


def safe_line(text: str) -> str:
    """:func:`safe_text` on one line."""
    return " ".join(safe_text(text).split())


def safe_json(value: Any, indent: int | None = None) -> str:
    """A value as JSON. Characters that a terminal might interpret are escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
