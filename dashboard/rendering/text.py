"""What agents wrote, made safe to look at: nothing is hidden, nothing moves the text around it.

Terminal colours are kept, other escape sequences dropped; control characters, lone surrogates and
characters that reorder text ("trojan source") are shown as visible signs.
"""

import re
from collections.abc import Iterator

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

_ESCAPES = re.compile(
    r"\x1b\[(?P<style>[\d;:]*)m"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # other control sequences
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]"
)
_SHAPELESS = (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000))
_SIGNS: dict[int, str] = dict.fromkeys(_SHAPELESS, "\ufffd") | {0x0D: "\n"}
_SIGNS |= {code: f"[U+{code:04X}]" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def visible(text: str) -> str:
    """The text without escape sequences, with every character that has no shape of its own as a sign."""
    return _ESCAPES.sub("", text.replace("\r\n", "\n")).translate(_SIGNS)


def terminal(text: str) -> SafeString:
    """Terminal output as HTML, in its 16 colours; further colours and backgrounds are left out."""
    return mark_safe("".join(_runs(text.replace("\r\n", "\n"))))  # noqa: S308 every run is escaped


def _runs(text: str) -> Iterator[str]:
    style: tuple[str, ...] = ()
    start = 0
    for match in _ESCAPES.finditer(text):
        yield _run(text[start : match.start()], style)
        start = match.end()
        if match["style"] is not None:
            style = _restyled(style, match["style"])
    yield _run(text[start:], style)


def _run(text: str, style: tuple[str, ...]) -> str:
    shown = escape(text.translate(_SIGNS))
    return f'<span class="{" ".join(style)}">{shown}</span>' if style and shown else shown


def _restyled(style: tuple[str, ...], codes: str) -> tuple[str, ...]:
    """The classes after a "select graphic rendition" sequence."""
    numbers = [int(code) for code in re.split("[;:]", codes) if code.isdecimal() and len(code) < 4] or [0]
    if numbers[0] in (38, 48):  # colours of a palette or by value: not ours to choose
        return style
    for number in numbers:
        if number == 0:
            style = ()
        elif number in (1, 2):
            style = (*_without(style, "weight-"), f"weight-{number}")
        elif number == 22:
            style = _without(style, "weight-")
        elif 30 <= number <= 37 or 90 <= number <= 97:
            style = (*_without(style, "ansi-"), f"ansi-{number}")
        elif number == 39:
            style = _without(style, "ansi-")
    return style


def _without(style: tuple[str, ...], prefix: str) -> tuple[str, ...]:
    return tuple(name for name in style if not name.startswith(prefix))
