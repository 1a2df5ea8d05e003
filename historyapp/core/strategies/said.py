"""The user's own words in a summary: verbatim, before all else, found again when summaries are combined."""

import json
import re
from collections.abc import Sequence

from historyapp.core.policies.clipping import fair_share
from historyapp.core.strategies.base import Material
from historyapp.core.strategies.shortening import clip
from historyapp.core.text import clean, fenced

SHARE = 0.75
"""Of a summary's room, at most, for what people said."""
_LEAD = "The user said"
_FRAMING = 80
_SMALLEST = 60
USER_FIELD = '{"user": ['
"""How a summary begins that is a JSON object with the user's words."""
_BLOCK = re.compile(
    rf"{_LEAD}(?: \([^)\n]*\))?: "
    r'(?:"(?P<line>[^\n]*)"|(?P<fence>`{3,})\n(?P<text>.*?)\n(?P=fence))(?:\n|\Z)',
    re.DOTALL,
)


def words_of(material: Material) -> list[str]:
    """What people said before and within the steps, and to interrupt them; each text once, oldest first."""
    told = [*material.inputs]
    for episode in material.episodes:
        told += [
            result.feedback
            for result in episode.results
            if result.status == "interrupted_by_human" and result.feedback
        ]
    return list(dict.fromkeys(text for words in told if (text := clean(words)).strip()))


def quote_words(words: Sequence[str], room: int) -> str:
    """Each text verbatim in a block of its own; the longest are clipped where there is no room, marked so."""
    if not words or room < _SMALLEST:
        return ""
    blocks = [_block(text, len(text)) for text in words]
    if sum(map(len, blocks)) + len(blocks) - 1 <= room:
        return "\n".join(blocks)
    most = room // (_FRAMING + _SMALLEST)
    shown = list(words[:1]) + list(words[1:][-max(0, most - 1) :] if most > 1 else [])
    missing = len(words) - len(shown)
    note = f"[{missing} more that the user said left out]" if missing else ""
    level = fair_share(
        [len(text) + _FRAMING for text in shown], room - (len(note) + 1 if note else 0) - len(shown)
    )
    blocks = [_block(text, max(1, level - _FRAMING)) for text in shown]
    quoted = "\n".join([blocks[0], note, *blocks[1:]] if note else blocks)
    return quoted if len(quoted) <= room else ""


def take_words(text: str) -> tuple[list[str], str]:
    """The texts that a summary of ours quotes at its beginning, or in its field ``user``, and its rest."""
    if text.startswith(USER_FIELD):
        return _taken_from_json(text)
    words = []
    while found := _BLOCK.match(text):
        words.append(found["line"] if found["line"] is not None else found["text"])
        text = text[found.end() :]
    return words, text


def _taken_from_json(text: str) -> tuple[list[str], str]:
    """The same for a summary that is a JSON object; no words where it is none."""
    try:
        found = json.loads(text)
        words = found.pop("user")
    except (ValueError, RecursionError):
        return [], text
    if not all(isinstance(each, str) for each in words):
        return [], text
    return words, json.dumps(found, ensure_ascii=False)


def _block(text: str, room: int) -> str:
    shown = clip(text, room)
    cut = "" if shown == text else f" (clipped: {len(shown):,} of {len(text):,} characters)"
    return f'{_LEAD}{cut}: "{shown}"' if "\n" not in shown else f"{_LEAD}{cut}: {fenced(shown)}"
