"""What agents wrote, made safe to look at: nothing is hidden, nothing moves the text around it.

Terminal colours are kept, other escape sequences dropped; control characters, lone surrogates and
characters that reorder text ("trojan source") are shown as visible signs.
"""

import re

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
    """The text without escape sequences; invisible characters are replaced by visible signs."""
    return _ESCAPES.sub("", text.replace("\r\n", "\n")).translate(_SIGNS)


def terminal(text: str) -> SafeString:
    """Terminal output as HTML, in its 16 colours; further colours and backgrounds are left out."""
    text = text.replace("\r\n", "\n")
    runs: list[str] = []
    style: tuple[str, ...] = ()
    start = 0
    for match in [*_ESCAPES.finditer(text), None]:
        shown = escape(text[start : match.start() if match else None].translate(_SIGNS))
        runs.append(f'<span class="{" ".join(style)}">{shown}</span>' if style and shown else shown)
        if match:
            start = match.end()
            style = style if match["style"] is None else _restyled(style, match["style"])
    return mark_safe("".join(runs))  # noqa: S308 every run is escaped


def _restyled(style: tuple[str, ...], codes: str) -> tuple[str, ...]:
    """The classes after a "select graphic rendition" sequence."""
    numbers = [int(code) for code in re.split("[;:]", codes) if code.isdecimal() and len(code) < 4] or [0]
    if numbers[0] in (38, 48):  # colours of a palette or by value: not ours to choose
        return style
    for number in numbers:
        is_weight, is_colour = number in (1, 2, 22), 30 <= number <= 39 or 90 <= number <= 97
        if number == 0:
            style = ()
        elif is_weight or (is_colour and number != 38):
            replaced, default = ("weight-", 22) if is_weight else ("ansi-", 39)
            style = tuple(name for name in style if not name.startswith(replaced))
            style += (f"{replaced}{number}",) if number != default else ()
    return style
