"""A summary's words put together within its length: what people said, then what was made of the steps."""

from collections.abc import Callable, Sequence

from historyapp.core.strategies.base import Written
from historyapp.core.strategies.said import SHARE, quote_words
from historyapp.core.strategies.shortening import clip, shorten
from historyapp.core.text import clean

LONGEST_POINT = 300
MOST_POINTS = 50


def composed(
    words: Sequence[str],
    max_length: int,
    body: str | Callable[[int], str],
    points: Sequence[str] = (),
) -> Written:
    """The words quoted, then ``body``, which may ask what room is left; never longer, never empty."""
    said = quote_words(words, int(max_length * SHARE))
    room = max_length - len(said) - bool(said)
    made = body if isinstance(body, str) else body(room)
    told = shorten(made, room)
    text = "\n".join(part for part in (said, told) if part)
    key_points = [clip(clean(point), LONGEST_POINT) for point in points[:MOST_POINTS]]
    if len(points) > MOST_POINTS:
        key_points.append(f"[{len(points) - MOST_POINTS} more points left out]")
    return Written(text or "…", tuple(key_points))
