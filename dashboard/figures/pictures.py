"""The pictures of a project's figures: a bar for each day, or for several days of a long span."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import NamedTuple

from django.utils.safestring import SafeString, mark_safe

from dashboard.timeline.bars import percent
from historyapp.core.usage import rounded_dollars
from historyapp.services.figures.group_figures import GroupFigures

HEIGHT = 96
"""The size of a picture in pixels."""


@dataclass(frozen=True, slots=True)
class Picture:
    name: str
    title: str
    lower: str
    """The meaning of the bars' lower part; empty if they have none."""
    maximum: str
    """The value of the highest bar."""
    bars: list[SafeString]
    """The bars as SVG. Templates took 20 ms of processor time for 90 days."""
    height: int = HEIGHT


class _PictureKind(NamedTuple):
    """The part of a day's figures that a picture shows."""

    name: str
    title: str
    lower: str
    value: Callable[[GroupFigures], int]
    lower_value: Callable[[GroupFigures], int] | None
    words: Callable[[GroupFigures], str]
    shown: Callable[[int], str] = "{:,}".format


def _failed(day: GroupFigures) -> int:
    return day.figures.errors + day.figures.likely_failures


def _dollars(micros: int) -> str:
    return rounded_dollars(micros)


_PICTURE_KINDS = (
    _PictureKind(
        "steps", "Steps", "failed",
        lambda day: day.figures.steps,
        lambda day: min(day.figures.steps, _failed(day)),
        lambda day: f"{day.figures.steps:,} steps, {day.figures.errors:,} errors, "
        f"{day.figures.likely_failures:,} likely failures",
    ),
    _PictureKind(
        "errors", "Errors and likely failures", "errors",
        _failed,
        lambda day: day.figures.errors,
        lambda day: f"{day.figures.errors:,} errors, {day.figures.likely_failures:,} likely failures",
    ),
    _PictureKind(
        "tokens", "Tokens", "from cache",
        lambda day: day.figures.reported_tokens,
        lambda day: day.figures.cache_read,
        lambda day: f"{day.figures.reported_tokens:,} tokens, {day.figures.cache_read:,} from cache, "
        f"{day.figures.output:,} output",
    ),
    _PictureKind(
        "money", "Cost", "",
        lambda day: day.micros,
        None,
        lambda day: f"{'at least ' if day.is_minimum else ''}{_dollars(day.micros)}",
        _dollars,
    ),
)  # fmt: skip


def pictures(slots: Sequence[GroupFigures], first: date, days_per_bar: int) -> list[Picture]:
    """The pictures of some days.

    Args:
        slots: the figures of each bar.
        days_per_bar: the number of days of one bar.
    """
    return [_picture(kind, slots, first, days_per_bar) for kind in _PICTURE_KINDS]


def _picture(kind: _PictureKind, slots: Sequence[GroupFigures], first: date, days_per_bar: int) -> Picture:
    maximum = max(map(kind.value, slots), default=0)
    bars: list[SafeString] = []
    for index, slot in enumerate(slots):
        if value := kind.value(slot):
            day = first + timedelta(days=index * days_per_bar)
            span = f"{day}" if days_per_bar == 1 else f"{day} and the {days_per_bar - 1} days after it"
            position = f'x="{percent(index + 0.1, len(slots))}" width="{percent(0.8, len(slots))}"'
            shapes = _rect("figures-bar", position, HEIGHT * value / maximum)
            if kind.lower_value and (lower := kind.lower_value(slot)):
                shapes += _rect("figures-lower", position, HEIGHT * lower / maximum)
            bar = f"<g><title>{span}: {kind.words(slot)}</title>{shapes}</g>"
            bars.append(mark_safe(bar))  # noqa: S308 nothing but numbers
    return Picture(kind.name, kind.title, kind.lower, kind.shown(maximum), bars)


def _rect(name: str, position: str, height: float) -> str:
    return f'<rect class="{name}" {position} y="{HEIGHT - height:.1f}" height="{height:.1f}"/>'
