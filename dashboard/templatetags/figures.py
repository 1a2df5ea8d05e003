"""Tags of the page of figures."""

from django import template
from django.utils.safestring import SafeString

from dashboard.figures.project import FiguresPage
from dashboard.figures.tables import FiguresHead, FiguresRow, FiguresTable, figures_cells
from historyapp.services.figures.group_figures import GroupFigures

register = template.Library()


@register.simple_tag
def day_cells(shown: FiguresPage, group: GroupFigures) -> SafeString:
    """The cells of a row of the table of days."""
    return figures_cells(group, shown.columns_of)


@register.simple_tag
def sorted_link(shown: FiguresPage, table: FiguresTable, head: FiguresHead) -> str:
    """The address of the table sorted by a column."""
    return f"{shown.link(sort=head.order)}#by-{table.name}"


@register.simple_tag
def filter_link(shown: FiguresPage, table: FiguresTable, row: FiguresRow) -> str:
    """The address of the page filtered by the name of a row; empty if there is none."""
    return shown.link(**{table.name: row.name}) if row.name else ""
