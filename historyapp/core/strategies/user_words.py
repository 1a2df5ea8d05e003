"""The user's words: quoted verbatim at the beginning of a summary, and kept when summaries are combined."""

import json
import re
from collections.abc import Callable, Sequence

from historyapp.core.json import parse_embedded
from historyapp.core.policies.clipping import fair_share
from historyapp.core.strategies.base import Material, SummaryDraft
from historyapp.core.strategies.shortening import clip, shorten
from historyapp.core.text import clean, fenced

SHARE = 0.75
"""The maximum share of a summary's length for the user's words."""
MAX_POINT = 300
MAX_POINTS = 50
_LEAD = "The user said"
_FRAMING = 80
_MIN_WORDS = 60
USER_FIELD = '{"user": ['
"""The beginning of a summary that is a JSON object with the user's words."""
_BLOCK = re.compile(
    rf"{_LEAD}(?: \([^)\n]*\))?: "
    r'(?:"(?P<line>[^\n]*)"|(?P<fence>`{3,})\n(?P<text>.*?)\n(?P=fence))(?:\n|\Z)',
    re.DOTALL,
)


def user_words(material: Material) -> list[str]:
    """The texts of people before, within and interrupting the steps: each once, oldest first."""
    texts = [*material.inputs]
    for episode in material.episodes:
        texts += [
            result.feedback
            for result in episode.results
            if result.status == "interrupted_by_human" and result.feedback
        ]
    return list(dict.fromkeys(clean(text) for text in texts if clean(text).strip()))


def compose_summary(
    words: Sequence[str],
    max_length: int,
    body: str | Callable[[int], str],
    points: Sequence[str] = (),
) -> SummaryDraft:
    """The user's words quoted, then the body, at most ``max_length`` characters and never empty.

    Args:
        body: its text, or a function that returns one with at most the given length.
    """
    quoted = quote_words(words, int(max_length * SHARE))
    room = max_length - len(quoted) - bool(quoted)
    shortened = shorten(body if isinstance(body, str) else body(room), room)
    if split_words(shortened)[0]:  # a model's or a tool's text must not count as the user's words
        shortened = shorten(f"Summary: {shortened}", room)
    text = "\n".join(part for part in (quoted, shortened) if part)
    key_points = [clip(clean(point), MAX_POINT) for point in points[:MAX_POINTS]]
    if len(points) > MAX_POINTS:
        key_points.append(f"[{len(points) - MAX_POINTS} more points left out]")
    return SummaryDraft(text or "…", tuple(key_points))


def quote_words(words: Sequence[str], room: int) -> str:
    """Each text verbatim in a block of its own. If they do not fit, the longest are clipped."""
    if not words or room < _MIN_WORDS:
        return ""
    blocks = [_block(text, len(text)) for text in words]
    if sum(map(len, blocks)) + len(blocks) - 1 <= room:
        return "\n".join(blocks)
    max_texts = room // (_FRAMING + _MIN_WORDS)
    shown = list(words[:1]) + list(words[1:][-max(0, max_texts - 1) :] if max_texts > 1 else [])
    missing = len(words) - len(shown)
    note = f"[{missing} more quotes of the user left out]" if missing else ""
    max_block = fair_share(
        [len(text) + _FRAMING for text in shown], room - (len(note) + 1 if note else 0) - len(shown)
    )
    blocks = [_block(text, max(1, max_block - _FRAMING)) for text in shown]
    quoted = "\n".join([blocks[0], note, *blocks[1:]] if note else blocks)
    return quoted if len(quoted) <= room else ""


def split_words(text: str) -> tuple[list[str], str]:
    """The user's texts that a summary quotes at its beginning or in its field ``user``, and the rest."""
    if text.startswith(USER_FIELD):
        try:
            fields = parse_embedded(text)
            words = fields.pop("user")
        except ValueError:
            return [], text
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            return [], text
        return words, json.dumps(fields, ensure_ascii=False)
    words, position = [], 0
    while match := _BLOCK.match(text, position):
        words.append(match["line"] if match["line"] is not None else match["text"])
        position = match.end()
    return words, text[position:]


def _block(text: str, room: int) -> str:
    shown = clip(text, room)
    cut = "" if shown == text else f" (clipped: {len(shown):,} of {len(text):,} characters)"
    return f'{_LEAD}{cut}: "{shown}"' if "\n" not in shown else f"{_LEAD}{cut}: {fenced(shown)}"
