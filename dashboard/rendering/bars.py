"""A bar of adjacent parts with their figures: the composition of a request or a context."""

from collections.abc import Iterable
from dataclasses import dataclass

from dashboard.timeline.bars import percent


@dataclass(frozen=True, slots=True)
class BarPart:
    """One part of a bar and its row in a table; ``x`` and ``width`` are percentages of the bar."""

    kind: str
    label: str
    tokens: int
    share: str
    """Share of the total as a percentage; empty if there is no total, and for a part below zero."""
    x: str
    width: str


def draw_bar(
    sizes: Iterable[tuple[str, str, int]], width: int, *, total: int = 0, scale: float = 1.0
) -> list[BarPart]:
    """The parts of a bar. Parts without tokens are left out, and parts below zero have no width.

    Args:
        sizes: kind, label and tokens of each part.
        width: the tokens that the whole bar represents.
        total: the tokens of the whole, for the shares of the parts; 0: no shares.
        scale: the factor by which all parts are narrower than their tokens.
    """
    parts: list[BarPart] = []
    before = 0
    for kind, label, tokens in sizes:
        if not tokens:
            continue
        size = round(max(0, tokens) * scale)
        x, share = percent(before, width), _share(tokens, total) if total and tokens > 0 else ""
        parts.append(BarPart(kind, label, tokens, share, x, percent(size, width)))
        before += size
    return parts


def _share(tokens: int, total: int) -> str:
    percentage = round(100 * tokens / total)
    return f"{percentage} %" if percentage else "<1 %"
