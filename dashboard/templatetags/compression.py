"""Template tags and filters for compression runs and summaries."""

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.rendering.text import visible
from dashboard.templatetags.playhead import dollars, duration, icon
from historyapp.core.strategies import MANUAL, STRATEGIES
from historyapp.models import CompressionItem, CompressionRun, Summary
from historyapp.services.compression.request import RunEstimate

register = template.Library()

STATES = {
    "queued": ("clock", "queued"),
    "running": ("playhead", "running"),
    "succeeded": ("check", "succeeded"),
    "partly_failed": ("alert", "partly failed"),
    "failed": ("cross", "failed"),
    "cancelled": ("missing", "cancelled"),
    "waiting": ("clock", "waiting"),
    "claimed": ("playhead", "running"),
    "done": ("check", "done"),
}
"""Icon and word of each state of a run or of one of its summaries."""


@register.simple_tag
def state(name: str) -> SafeString:
    picture, word = STATES.get(name, ("missing", name))
    return format_html('<span class="outcome state-{}">{}{}</span>', name, icon(picture), word)


@register.filter
def strategy_title(name: str) -> str:
    """The title of a strategy."""
    if name == MANUAL:
        return "Written by hand"
    return STRATEGIES[name].title if name in STRATEGIES else visible(name)


@register.filter
def model_title(name: str) -> str:
    """The model of a run or a summary; empty when no model was used."""
    return "local summariser" if name == "local" else visible(name)


@register.filter
def who(actor: str) -> str:
    """The name of an actor: user:ann is ann, key:ph_x1Y2z3A is key ph_x1Y2z3A."""
    kind, _, name = actor.partition(":")
    return visible(name if kind == "user" else f"{kind} {name}".rstrip())


@register.filter
def money(micros: int | None) -> str:
    """Millionths of a dollar as dollars; None means that the price is unknown."""
    if micros is None:
        return "price unknown"
    return dollars(micros) if micros else "$0"


@register.filter
def steps(of: CompressionRun | CompressionItem | Summary | RunEstimate) -> str:
    """The steps of a run, an item, a summary or an estimate: step 3, steps 3–7, no steps."""
    first, last = (
        (of.from_step, of.to_step) if isinstance(of, CompressionRun) else (of.first_step, of.last_step)
    )
    if last < first:
        return "no steps"
    return f"step {first:,}" if first == last else f"steps {first:,}–{last:,}"


@register.filter
def step_range_label(of: CompressionRun | CompressionItem | Summary | RunEstimate) -> str:
    """The same without the word: 3–7."""
    return steps(of).removeprefix("steps ").removeprefix("step ")


@register.filter
def run_time(run: CompressionRun) -> str:
    """How long a run took, or has taken so far."""
    if run.started_at is None:
        return ""
    return duration((run.finished_at or timezone.now()) - run.started_at)
