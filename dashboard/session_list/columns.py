"""The columns of the list of sessions, and which of them a person sees."""

from collections.abc import Iterable
from typing import NamedTuple

from django.contrib.auth.models import User

from historyapp.core.errors import Invalid
from historyapp.models import ListPreference
from historyapp.models.session_lists import Order


class ListColumn(NamedTuple):
    """A column that people can choose."""

    name: str
    title: str
    order: str = ""
    """The sort key of its header; empty if the list cannot be sorted by it."""
    descends: bool = True
    """Whether the first click puts the highest values first."""
    is_number: bool = True
    has_total: bool = False
    """Whether the rows of groups show its total, or for a time the newest one."""

    @property
    def template(self) -> str:
        return f"session_list/columns/{self.name}.html"

    @property
    def first_order(self) -> Order:
        """The order of the first click."""
        return Order(self.order, self.descends)


COLUMNS = {
    column.name: column
    for column in (
        ListColumn("outcomes", "Outcomes", is_number=False),
        ListColumn("model", "Model", "model", descends=False, is_number=False),
        ListColumn("steps", "Steps", "steps", has_total=True),
        ListColumn("errors", "Errors", "errors", has_total=True),
        ListColumn("likely_failures", "Likely failures", "likely_failures", has_total=True),
        ListColumn("duration", "Time", "duration"),
        ListColumn("tokens", "Tokens in", "tokens", has_total=True),
        ListColumn("money", "Cost", "money", has_total=True),
        ListColumn("score", "Score", "score"),
        ListColumn("ended", "Ended", is_number=False),
        ListColumn("started", "Started", "started"),
        ListColumn("last_entry", "Last entry", "last_entry", has_total=True),
    )
}
DEFAULT = ("outcomes", "steps", "errors", "duration", "tokens", "money", "ended", "last_entry")
_RENAMED = {"last_step": "ended"}
"""Columns in the choices of an earlier version."""


class ListChoice(NamedTuple):
    """What a person has chosen."""

    columns: tuple[ListColumn, ...]
    order: Order

    @property
    def names(self) -> set[str]:
        return {column.name for column in self.columns}


def choice_of(user: User) -> ListChoice:
    """A person's columns and order."""
    preference = ListPreference.objects.filter(user=user).first()
    if preference is None:
        return ListChoice(_columns(DEFAULT), Order())
    try:
        order = Order.parse(preference.order)
    except Invalid:  # of another version
        order = Order()
    return ListChoice(_columns(preference.columns), order)


def _columns(names: Iterable[str]) -> tuple[ListColumn, ...]:
    shown = {_RENAMED.get(name, name) for name in names}
    return tuple(column for column in COLUMNS.values() if column.name in shown)
