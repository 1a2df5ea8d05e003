"""Makes text from agents safe to display: nothing is hidden, and nothing moves the surrounding text.

Terminal colours are kept, other escape sequences dropped; control characters, lone surrogates and
characters that reorder text ("trojan source") are shown as visible signs. Only text with colours loads rich.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from historyapp.core.short_targets import with_short_path

if TYPE_CHECKING:
    from rich.style import Style
    from rich.text import Text as RichText

_ESCAPES = re.compile(
    r"\x1b\[(?P<style>[\d;:]*)m"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # other control sequences
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]"
)
_FIRST_TEXT = re.compile(r"^(?:\w+=(?:True|False|None|[\d.]+), )*\w+=(['\"])(.*?)\1(, |$)")
_WAIT = re.compile(r"session_id=(\d{1,12}), chars=''(?:, |$)")
"""Codex's write_stdin without a text: it waits for more output of a command that still runs."""
PART = 1 << 18
"""Characters that are made visible in one step."""
MAX_COLUMN = 5_000
"""The rest of a longer line has no colours. Browsers take seconds for 20,000 coloured parts of a line."""
_MAX_STYLE = 64
"""Characters of one sequence of styles. Longer ones are left out."""
_SHAPELESS = (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000))
_SIGNS: dict[int, str] = dict.fromkeys(_SHAPELESS, "\ufffd") | {0x0D: "\n"}
_SIGNS |= {code: f"[U+{code:04X}]" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def main_value_first(arguments: str) -> str:
    """The preview of a call's arguments, with its first text first and without that text's name."""
    if wait := _WAIT.match(arguments):
        return f"wait for session {wait[1]}"
    value_first = _FIRST_TEXT.sub(lambda match: match[2] + (" " if match[3] else ""), arguments)
    return with_short_path(value_first)


def visible(text: str) -> str:
    """The text without escape sequences; invisible characters are replaced by visible signs.

    Other threads can run between the parts of a long text: 31 MB of sequences stopped them for four seconds.
    """
    if len(text) <= PART:
        return _visible(text)
    return "".join(_visible(text[start:end]) for start, end in pairwise(_ends(text)))


def _visible(text: str) -> str:
    return _ESCAPES.sub("", text.replace("\r\n", "\n")).translate(_SIGNS)


def _ends(text: str) -> Iterator[int]:
    """Where the parts of a long text begin and end: never within an escape sequence."""
    end = 0
    while end < len(text):
        yield end
        limit = end + PART
        if limit >= len(text):
            break
        last = text.rfind("\x1b", end, limit)
        sequence = _ESCAPES.match(text, last) if last >= 0 else None
        limit = max(limit, sequence.end()) if sequence else limit
        end = limit - 1 if text[limit - 1] == "\r" else limit
    yield len(text)


def terminal(text: str) -> SafeString:
    """Terminal output as HTML. Other colours become the nearest of the 16 that a terminal always has."""
    pieces: list[str] = []
    start = 0
    text = text.replace("\r\n", "\n")
    for match in [*_ESCAPES.finditer(text), None]:
        pieces.append(text[start : match.start() if match else None].translate(_SIGNS))
        if match:
            start = match.end()
            # rich reads each number with int(), which fails on thousands of digits.
            if match["style"] is not None and len(match["style"]) <= _MAX_STYLE:
                pieces.append(f"\x1b[{match['style'].replace(':', ';')}m")
    plain = "".join(pieces)
    if "\x1b" not in plain:
        return escape(plain)
    from rich.ansi import AnsiDecoder

    decoder = AnsiDecoder()
    lines = (_styled(decoder.decode_line(line)) for line in plain.split("\n"))
    return mark_safe("\n".join(lines))  # noqa: S308 every run is escaped


def _styled(line: "RichText") -> str:
    from rich.style import Style

    runs, position = list[str](), 0
    for start, end, style in takewhile(lambda span: span.start <= MAX_COLUMN, line.spans):
        names = _class_names(style) if isinstance(style, Style) else ""
        shown = escape(line.plain[start:end])
        runs.append(escape(line.plain[position:start]))
        runs.append(f'<span class="{names}">{shown}</span>' if names else shown)
        position = end
    return "".join([*runs, escape(line.plain[position:])])


@lru_cache(maxsize=1_024)
def _class_names(style: "Style") -> str:
    """The classes of a style, without those that hide text or make it blink."""
    from rich.color import ColorSystem

    names = [name for name, is_on in _attributes(style) if is_on]
    for colour, first, first_bright in ((style.color, 30, 90), (style.bgcolor, 40, 100)):
        number = colour.downgrade(ColorSystem.STANDARD).number if colour else None
        if number is not None:
            names.append(f"ansi-{first + number if number < 8 else first_bright + number - 8}")
    return " ".join(names)


def _attributes(style: "Style") -> tuple[tuple[str, bool | None], ...]:
    return (
        ("weight-1", style.bold),
        ("weight-2", style.dim),
        ("italic", style.italic),
        ("underline", style.underline),
        ("reverse", style.reverse),
    )
