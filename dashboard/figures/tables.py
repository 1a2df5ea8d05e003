"""The tables of figures by agent, model and tool."""

from collections.abc import Mapping
from typing import NamedTuple

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dashboard.figures.percents import percent_text
from dashboard.templatetags.compression import money
from dashboard.timeline.bars import percent
from historyapp.models.episodes import SEVERAL_TOOLS
from historyapp.services.figures.group_figures import ORDERS, GroupFigures, GroupOrder
from historyapp.services.figures.project_figures import NamedGroups

TITLES: Mapping[str, str] = {
    "sessions": "Sessions",
    "steps": "Steps",
    "errors": "Errors",
    "likely_failures": "Likely failures",
    "failure_rate": "Failed",
    "tokens": "Tokens",
    "uncached": "Uncached",
    "cache_read": "From cache",
    "cache_write": "To cache",
    "output": "Output",
    "money": "Cost",
}
"""The heads of the columns, by sort key."""
TOO_FEW = "too few output tokens were reported"
"""Why a cost is too low, although all prices are known."""


class FiguresHead(NamedTuple):
    """The head of a column."""

    title: str
    order: str
    """The order that a click requests."""
    sorted: str
    """``aria-sort``; empty if the table is not sorted by this column."""


class FiguresRow(NamedTuple):
    label: str
    name: str
    """The value of the filter; empty if the page cannot be filtered by it."""
    cells: SafeString


class FiguresTable(NamedTuple):
    name: str
    """``agent``, ``model`` or ``tool``."""
    heads: list[FiguresHead]
    rows: list[FiguresRow]
    names: int
    """The number of agents, models or tools, of which ``rows`` has the first ones."""


def names_table(kind: str, groups: NamedGroups, order: GroupOrder, columns_of: str = "") -> FiguresTable:
    """The table of agents, models or tools, in this order.

    Args:
        columns_of: ``model`` or ``tool`` for the columns of its table; empty: of the table's own kind.
    """
    columns_of = columns_of or kind
    order = order.of(columns_of)
    value_of = ORDERS[order.name]
    maximum = max((value_of(group) or 0 for group in groups.listed.values()), default=0) or 1
    labels = {"": "no tool called" if kind == "tool" else "not named", SEVERAL_TOOLS: "several tools"}
    rows = [
        FiguresRow(
            labels.get(name, name),
            name,
            figures_cells(group, columns_of, order.name, percent((value_of(group) or 0) / maximum)),
        )
        for name, group in groups.listed.items()
    ]
    return FiguresTable(
        kind, [_head(name, order) for name in table_columns(columns_of)], rows, groups.item_count
    )


def table_columns(kind: str) -> list[str]:
    """A model and a tool have no sessions: a session may use several of them, but counts for only one."""
    return [name for name in TITLES if name != "sessions" or kind not in ("model", "tool")]


def _head(name: str, order: GroupOrder) -> FiguresHead:
    descends = not order.is_descending if order.name == name else True
    state = ("descending" if order.is_descending else "ascending") if order.name == name else ""
    return FiguresHead(TITLES[name], str(GroupOrder(name, descends)), state)


def figures_cells(group: GroupFigures, kind: str, sorted_by: str = "", width: str = "") -> SafeString:
    """The cells of a row. A page has a thousand of them, which take 20 ms of templates.

    Args:
        sorted_by: the column with a bar.
        width: the width of the bar.
    """
    texts = _texts(group)
    cells = []
    for name in table_columns(kind):
        css = "number failed" if name == "errors" and group.figures.errors else "number"
        bar = ""
        if name == sorted_by:
            css += " with-bar"
            rect = f'<rect width="{width}" height="8" rx="4"/>'
            bar = f'<svg class="row-bar" height="8" aria-hidden="true">{rect}</svg>'
        cells.append(f'<td class="{css}">{bar}{texts[name]}</td>')
    return mark_safe("".join(cells))  # noqa: S308 nothing but numbers


def _texts(group: GroupFigures) -> dict[str, str]:
    """The HTML of each cell."""
    figures = group.figures
    counts = {name: getattr(figures, name) for name in ("sessions", "steps", "errors", "likely_failures")}
    tokens = {name: getattr(figures, name) for name in ("uncached", "cache_read", "cache_write", "output")}
    tokens["tokens"] = figures.reported_tokens
    return {
        **{name: f"{count:,}" for name, count in counts.items()},
        **{name: f"{count:,}" if figures.model_calls else "–" for name, count in tokens.items()},
        "failure_rate": escape(percent_text(group.failed, figures.steps)) if figures.steps else "–",
        "money": _cost(group),
    }


def _cost(group: GroupFigures) -> str:
    text = escape(cost_text(group))
    if group.micros and group.is_minimum:
        return f'<span title="{escape(unpriced_text(group) or TOO_FEW)}">{text}</span>'
    return text


def cost_text(group: GroupFigures) -> str:
    """The cost as far as it is known; a dash without model calls."""
    if group.micros:
        return f"{'≥ ' if group.is_minimum else ''}{money(group.micros)}"
    if group.unpriced:
        return "unknown"
    return money(0) if group.figures.model_calls else "–"


def unpriced_text(group: GroupFigures) -> str:
    """The models whose cost is unknown, and their share of the tokens; empty if there are none."""
    if not group.unpriced:
        return ""
    count = len(group.unpriced)
    share = percent_text(group.unpriced_tokens, group.figures.reported_tokens)
    return f"no known price for {count:,} model{'s' * (count != 1)}, {share} of the tokens"
