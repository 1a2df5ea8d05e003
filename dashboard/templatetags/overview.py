"""Tags of the overview page."""

from collections.abc import Sequence
from datetime import timedelta

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard.location import Location
from dashboard.rendering.sources import TOKEN_SOURCES, money_source
from dashboard.step_list.filter import FilterForm
from dashboard.templatetags.playhead import dollars, duration, icon, short_figure
from historyapp.core.overview.files import FileFigures
from historyapp.core.overview.repeats import Repeat
from historyapp.core.run_costs import RunMoney, RunTokens, TokenSource, money_of, other_models, tokens_of
from historyapp.models import Session
from historyapp.models.text_search import MAX_CHARACTERS
from historyapp.services.list_columns import own_totals
from historyapp.services.prices import price_list

register = template.Library()

RULES = {
    "same_call_same_result": "same call, same result, {} times",
    "alternating_calls": "two alternating calls, {} steps",
    "error_streak": "{} steps in a row failed",
}
"""The rules of repeated work in words, with the number of calls or steps."""
SHOWN_TOOLS = 3
SOURCES = {
    "reported": "as reported",
    "estimated": "estimated, no usage was reported",
    "unknown": "unknown",
    "none": "no usage was reported",
}


@register.simple_tag
def step_links(
    location: Location, steps: Sequence[int], limit: int = 3, more: str = "", part: str = ""
) -> SafeString:
    """The first steps as links; a dash if there are none.

    Args:
        more: the address of the list of all of them.
        part: the fragment of the addresses, such as ``#failure``.
    """
    if not steps:
        return format_html('<span class="none">–</span>')
    pairs = [(location.address_of(step) + part, f"{step:,}") for step in steps[:limit]]
    links = format_html_join(", ", '<a href="{}">{}</a>', pairs)
    if len(steps) <= limit:
        return links
    if not more:
        return format_html("{} …", links)
    return format_html('{}, <a href="{}" aria-label="all steps">…</a>', links, more)


@register.filter
def rough_time(milliseconds: int) -> str:
    """A duration in one unit: 6.7 s, 23 s, 9 min, 4.7 h, 3 days."""
    seconds = milliseconds / 1_000
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    for limit, size, unit in ((59.5, 1, "s"), (3_570, 60, "min")):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    hours = seconds / 3_600
    return f"{hours:.1f}".removesuffix(".0") + " h" if hours < 100 else f"{hours / 24:.0f} days"


@register.simple_tag
def file_url(location: Location, path: str, file: FileFigures) -> str:
    """The steps that read or changed a file, at the first one that changed it."""
    step = next(iter(file.edit_steps or file.steps), 1)
    if file.absolute and not file.absolute.endswith(path):  # ../a.py
        path = file.absolute
    shown = FilterForm(file=path[-MAX_CHARACTERS:])
    return f"{location.url}?step={step}{location.as_of_parameter}{shown.query}"


@register.simple_tag
def kind_icon(kind: str) -> SafeString:
    """The icon of a kind of tool."""
    return icon(f"kind-{kind}", kind)


@register.filter
def round_figure(number: float) -> str:
    """A number that need not be whole, in at most five characters."""
    return short_figure(round(number))


@register.simple_tag
def run_tokens(session: Session) -> RunTokens:
    """The token figure of a session of a list, from its row; that of a fork since the fork."""
    return tokens_of(own_totals(session))


@register.simple_tag
def run_money(session: Session) -> RunMoney:
    """The money figure of a session of a list, from its row; that of a fork since the fork."""
    return money_of(own_totals(session), session.model, price_list())


@register.filter
def run_cost(money: RunMoney) -> str:
    """The amount, marked if the true cost is higher."""
    return f"{'≥ ' if money.is_minimum else ''}{dollars(money.micros)}"


@register.simple_tag
def run_other_models(session: Session) -> list[str]:
    """Models that a session of a list used in addition to the one in its row; of a fork, since the fork."""
    return other_models(own_totals(session), session.model)


@register.simple_tag
def run_time(session: Session) -> str:
    """The time of a session of a list, that of a fork since the fork; empty if undated."""
    return duration(timedelta(milliseconds=session.duration)) if session.duration else ""


@register.filter
def token_source(source: TokenSource) -> str:
    """Where a token figure comes from, in one sentence."""
    return TOKEN_SOURCES[source]


register.filter("money_source", money_source)


@register.filter
def repeat_label(repeat: Repeat) -> str:
    """What a finding of repeated work found."""
    return RULES[repeat.rule].format(f"{repeat.count:,}")


@register.filter
def repeat_tools(repeat: Repeat) -> str:
    """The tools of a finding of repeated work: of a streak the first ones that failed."""
    tools = repeat.tools or [repeat.tool]
    return ", ".join(tools[:SHOWN_TOOLS]) + (" and others" if len(tools) > SHOWN_TOOLS else "")


@register.filter
def source_label(source: str) -> str:
    """Where a figure comes from."""
    return SOURCES.get(source, source)


@register.filter
def took_milliseconds(milliseconds: float) -> str:
    """A duration in milliseconds, as :func:`dashboard.templatetags.playhead.duration` writes it."""
    return duration(timedelta(milliseconds=milliseconds))
