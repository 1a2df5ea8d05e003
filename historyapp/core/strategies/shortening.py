"""Shortens texts without a model. The least informative lines are removed first, and a note counts them."""

from collections.abc import Sequence
from itertools import islice

from historyapp.core.excerpts import split_lines
from historyapp.core.identifiers import new_identifiers
from historyapp.core.policies.clipping import fair_share
from historyapp.core.strategies.facts import is_vital
from historyapp.core.text import clean

MAX_READ = 4_000_000
"""Characters of a text that are read: one half from the beginning, the other from the end. Ranking takes
25 bytes of memory for each of them."""
MAX_LINES = 1_000_000
"""The maximum number of lines, or parts of long lines, that are ranked. Later lines are left out."""
_MAX_RANKED_NAMES = 4
_VITAL_SCORE = 3
_BASE_SCORE = 0.5
"""The base score of every line."""
_CUT = " […] "


def shorten(text: str, room: int) -> str:
    """The text in at most ``room`` characters: its most informative lines, in order.

    Of a text with more than :data:`MAX_READ` characters, the lines at the beginning and at the end.
    """
    text, unread_lines = text.strip(), 0
    if len(text) > max(MAX_READ, room):
        half = MAX_READ // 2
        unread_lines = text.count("\n", half, len(text) - half) + 1
        text = f"{text[:half]}\n{text[-half:]}"
    text = clean(text)
    if len(text) <= room:
        return text
    lines_read = split_lines(text)
    parts = [part for part in islice(lines_read, MAX_LINES) if part.strip()]
    ranked = []
    for index, (part, names) in enumerate(zip(parts, new_identifiers(parts), strict=True)):
        score = min(len(names), _MAX_RANKED_NAMES) + _VITAL_SCORE * is_vital(part) + _BASE_SCORE
        # The first line often says what the text is about.
        ranked.append((-score / (20 + len(part)) if index else -1.0, index))
    unread_lines += sum(1 for _ in lines_read)
    room_left = room - len(_left_out_note(len(parts) + unread_lines))
    kept = []
    for _, index in sorted(ranked):
        if len(parts[index]) < room_left:
            kept.append(index)
            room_left -= len(parts[index]) + 1
    if not kept:
        return clip(text, room)
    lines = [parts[index] for index in sorted(kept)]
    missing = len(parts) + unread_lines - len(kept)
    return "\n".join([*lines, _left_out_note(missing)] if missing else lines)


def _left_out_note(lines: int) -> str:
    return f"[{lines:,} less useful {'line' if lines == 1 else 'lines'} left out]"


def clip_longest(texts: Sequence[str], room: int) -> list[str]:
    """The texts in together at most ``room`` characters. The longest keep their beginning and their end."""
    lengths = [len(text) for text in texts]
    if sum(lengths) <= room:
        return list(texts)
    share = fair_share(lengths, room)
    return [clip(text, share) for text in texts]


def clip(text: str, room: int) -> str:
    """The beginning and the end of a text in at most ``room`` characters, marked in the middle."""
    if len(text) <= room:
        return text
    if room <= len(_CUT) + 2:
        return "…"[:room]
    end = (room - len(_CUT)) // 3
    return text[: room - len(_CUT) - end] + _CUT + text[len(text) - end :]
