"""Rows of figures. A page has a thousand of these cells, which take 20 ms of templates."""

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dashboard.figures.project import unpriced_text
from dashboard.templatetags.compression import money
from historyapp.services.figures.project_figures import GroupFigures

register = template.Library()


@register.filter
def figures_cells(group: GroupFigures, kind: str) -> SafeString:
    """The cells of a row of figures. A tool's row has no sessions, because a session calls several tools."""
    figures = group.figures
    numbers = [figures.sessions] if kind != "tool" else []
    cells = [f'<td class="number">{number:,}</td>' for number in (*numbers, figures.steps)]
    failed = " failed" if figures.errors else ""
    cells.append(f'<td class="number{failed}">{figures.errors:,}</td>')
    sent = figures.uncached, figures.cache_read, figures.cache_write, figures.output
    cells += [f'<td class="number">{number:,}</td>' for number in (figures.likely_failures, *sent)]
    cells.append(f'<td class="number">{_cost(group)}</td>')
    return mark_safe("".join(cells))  # noqa: S308 nothing but numbers


def _cost(group: GroupFigures) -> str:
    """The cost as far as it is known; a dash without model calls."""
    if group.micros and group.unpriced:
        return f'<span title="{escape(unpriced_text(group))}">≥ {money(group.micros)}</span>'
    if group.micros:
        return money(group.micros)
    if group.unpriced:
        return "unknown"
    return money(0) if group.figures.model_calls else "–"
