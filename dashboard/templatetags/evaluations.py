"""Figures of evaluations in words."""

from django import template

from historyapp.core.evaluation.intervals import Interval
from historyapp.core.usage import rounded_dollars

register = template.Library()


@register.filter
def share(value: float) -> str:
    """A share as a percentage with one decimal."""
    return f"{100 * value:.1f} %"


@register.filter
def whole_share(value: float) -> str:
    """A share as a whole percentage."""
    return f"{100 * value:.0f} %"


@register.filter
def bounds(interval: Interval) -> str:
    """The ends of an interval in per cent."""
    return f"{100 * interval.low:.0f}–{100 * interval.high:.0f}"


@register.filter
def points(interval: Interval) -> str:
    """A difference in points with its interval."""
    mean, low, high = (f"{100 * value:+.1f}" for value in interval)
    return f"{mean} ({low} to {high})"


@register.filter
def thousand(micros: float | None) -> str:
    """The cost of 1,000 requests, from that of one in millionths of a dollar."""
    return "unknown" if micros is None else rounded_dollars(round(1000 * micros))


@register.filter
def rounded(number: float) -> str:
    return f"{number:,.0f}"
