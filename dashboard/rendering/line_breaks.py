"""Limits what a browser must lay out at once. Chromium takes quadratic time for six kinds of text.

- Combining marks on one letter: 40,000 of them stopped a page for up to ten seconds.
- Characters that are joined to the one before them as marks are, for one picture: skin tones of emoji, and
  symbols with zero-width joiners. 4,000 of them took 8 s.
- Thai, Lao, Khmer and Burmese without spaces, in which it looks up the words: 60,000 characters took 4 s.
- Words of more lines in which each character depends on the next, because the font has a space of its own
  for the pair or no such character: it shapes the rest of the word again for each line. "AVAV..." of 54,000
  letters took 132 s in nested quotes on a phone, and 55,000 brackets 18 s.
- A text whose characters come from several fonts in turn, with spaces: it looks for the beginning of each
  line from the beginning of the text. 60,000 characters of emoji and spaces took 39 s.
- A paragraph that often changes its direction: 60,000 characters took 3 s.

The first four are words, and the fifth is a text between two tags; :func:`with_breaks` divides both. The
sixth is any text for which :func:`turns` is true: at most :data:`MAX_TURNING` characters of it are in one
element. ``static/export/layout.js`` does the same. Lines take linear time, but much of it: :func:`page_end`
limits both.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from unicodedata import category

from django.utils.safestring import SafeString, mark_safe

MAX_WORD = 100
"""Characters without a space that a browser shapes, and divides into words, at once. Few words are longer."""
MAX_STRETCH = 250
"""Characters of a text that may need many fonts, after which a space ends what a browser shapes at once.
30,000 characters of emoji and spaces take 0.2 s, without breaks 3.2 s."""
MAX_FOREIGN, MAX_CHANGES = 8_000, 5_000
"""A text may need many fonts if it has more characters outside ASCII, or if more of its characters are from
another block of 128 than the one before. An ordinary text of 1,500 words has 3,000 such changes."""
MAX_TURNING = 10_000
"""Characters of a text with characters from right to left that a browser puts in order at once."""
MAX_LINES = 2_000
"""Lines that are shown at once. Each can be two elements and two pseudo-elements: 60,000 took ten seconds."""
MAX_JOINED = 16
"""Characters that a browser joins to one letter or picture. The longest emoji are ten characters."""
_ZWJ = "\u200d"
SHAPED = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u109f\u135d-\u135f\u1712-\u1cff\u1dc0-\u1dff\u200d\u20d0-\u20ff\u2cef-\u2cf1"
    "\u2d7f\u2de0-\u2dff\u302a-\u302f\u3099\u309a\ua66f-\ua69f\ua6f0\ua6f1\ua802-\uabed\ufb1e\ufe00-\ufe2f"
    "\U000101fd-\U00011fff\U00016000-\U0001bfff\U0001cf00-\U0001d244\U0001da00-\U0001efff\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\U000e0100-\U000e01ef]"
)
"""Characters that are joined, and the scripts whose words a browser looks up; others of their blocks too."""
_JOINED = re.compile("[\u200d\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
_MAX_PICTURES = 1_000
"""Joined characters of pictures in a text of which more than :data:`MAX_TURNING` characters are shown."""
_TURNED = re.compile(
    "[\u0590-\u08ff\u200f\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_TAG, _CHARACTER = "<[^<>]*+>", r"(?>&[#\w]{1,8};|[^<])"
_TAGS = re.compile(_TAG)
_LONG_WORD = re.compile(rf"(?<![^ \t\n])[^ \t\n]{{{MAX_WORD + 1}}}")
_WORD = re.compile(rf"<wbr>|(?:[^ \t\n<]++|(?!<wbr>){_TAG})++")
_PART = re.compile(rf"(?:(?:{_TAG})*+{_CHARACTER}){{1,{MAX_WORD}}}(?:(?:{_TAG})++\Z)?|(?:{_TAG})++")
_UNIT = re.compile(rf"{_TAG}|{_CHARACTER}")
_LONG_TEXT = re.compile(rf"{_TAG}|[^<]{{{MAX_CHANGES + 1},}}+")
_STRETCH = re.compile(rf"[^<]{{{MAX_STRETCH}}}[^ \t\n<]{{,{MAX_WORD}}}+[ \t\n]")


def turns(text: str) -> bool:
    """Whether a browser may have to put parts of the text in another order."""
    return not text.isascii() and _TURNED.search(text) is not None


def part_end(text: str, start: int, characters: int, lines: int | None = None) -> int:
    """Where a part ends: after the given characters or lines, at a line's end if one is near."""
    limit = min(len(text), start + max(0, characters))
    position = start
    for _ in range(lines or 0):
        position = text.find("\n", position, limit) + 1
        if not position:
            break
    else:
        if lines:
            return position
    if limit == len(text):
        return limit
    newline = text.rfind("\n", start + (limit - start) // 2, limit)
    return newline + 1 if newline >= 0 else limit


def page_end(text: str, start: int, characters: int) -> int:
    """Where a part of a text ends that has at most so many characters and that a browser lays out at once."""
    return part_end(text, start, page_characters(text[start : start + characters]), MAX_LINES)


def page_characters(text: str) -> int:
    """How many of these characters are shown at once."""
    is_long = turns(text) or (not text.isascii() and len(_JOINED.findall(text)) > _MAX_PICTURES)
    return min(len(text), MAX_TURNING) if is_long else len(text)


def with_breaks(html: SafeString) -> SafeString:
    """The HTML with ``<wbr>`` in words of more than :data:`MAX_WORD` characters, after :data:`MAX_JOINED`
    characters that are joined, and after :data:`MAX_STRETCH` characters of a text that may need many fonts.

    The text, and so what readers copy and find, stays the same.
    """
    divided: str = html
    if (not html.isascii() and SHAPED.search(html)) or _LONG_WORD.search(_TAGS.sub("", html)):
        divided = _WORD.sub(_divided, html)
    if _foreign(divided) > MAX_CHANGES // 2:
        divided = _LONG_TEXT.sub(_in_stretches, divided)
    return mark_safe(divided)  # noqa: S308 only <wbr> is added, outside of tags


def with_few_joined(html: str) -> str:
    """The text of a field without the characters that are joined beyond :data:`MAX_JOINED`, because a field
    cannot have ``<wbr>``."""
    if html.isascii() or not SHAPED.search(html):
        return html
    return "".join(unit for unit, joined in _counted(html) if joined <= MAX_JOINED or not _joins(unit))


def _divided(word: re.Match[str]) -> str:
    is_shaped = SHAPED.search(word[0])
    if len(word[0]) <= (MAX_JOINED if is_shaped else MAX_WORD):
        return word[0]
    if not is_shaped:
        return "<wbr>".join(_PART.findall(word[0]))
    pieces, length = list[str](), 0
    for unit, joined in _counted(word[0]):
        is_character = unit[0] != "<"
        can_end = length >= MAX_WORD if not joined else joined > MAX_JOINED and joined % MAX_JOINED == 1
        if is_character and can_end:
            pieces.append("<wbr>")
            length = 0
        pieces.append(unit)
        length += is_character
    return "".join(pieces)


def _foreign(text: str) -> int:
    """How many characters are outside ASCII."""
    return 0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore"))


def _in_stretches(text: re.Match[str]) -> str:
    if text[0][0] == "<" or not may_need_many_fonts(text[0]):
        return text[0]
    return _STRETCH.sub(r"\g<0><wbr>", text[0])


def may_need_many_fonts(text: str) -> bool:
    """Whether a browser could take quadratic time for a text whose characters are from several fonts."""
    foreign = _foreign(text)
    if not MAX_CHANGES // 2 < foreign <= MAX_FOREIGN:
        return foreign > MAX_FOREIGN
    blocks = [ord(character) >> 7 for character in text]
    changes = [block != before for before, block in pairwise(blocks)]
    return sum(changes) > MAX_CHANGES


def _counted(html: str) -> Iterator[tuple[str, int]]:
    """The tags and characters, and of each, how many characters in succession are joined up to it."""
    before, joined = "", 0
    for unit in _UNIT.findall(html):
        if unit[0] == "<":
            yield unit, 0
            continue
        joined = joined + 1 if before == _ZWJ or _joins(unit) else 0
        yield unit, joined
        before = unit


def _joins(unit: str) -> bool:
    """Whether a character belongs to the one before it."""
    return len(unit) == 1 and (category(unit)[0] == "M" or _JOINED.match(unit) is not None)
