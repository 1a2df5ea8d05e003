"""The groups of the list of sessions, and the links that choose a grouping."""

from typing import NamedTuple

from dashboard.rendering.text import visible
from dashboard.session_list.filters import SessionFilters, list_url
from historyapp.models.session_groups import GROUPINGS, MAX_GROUPS, SessionGroup, session_groups
from historyapp.models.session_lists import Order
from historyapp.models.sessions import SessionQuerySet

_TITLES = {"": "None", "agent": "Agent", "folder": "Folder", "repository": "Repository"}

_MISSING = {"agent": "No agent", "folder": "No folder", "repository": "No repository"}


class GroupRow(NamedTuple):
    """A group, with the link that shows or hides its sessions."""

    totals: SessionGroup
    label: str
    url: str
    is_open: bool

    @property
    def is_minimum(self) -> bool:
        """Whether the true cost is higher than the sum."""
        return bool(self.totals.unpriced or self.totals.partly_priced)

    @property
    def cost_hint(self) -> str:
        """What the sum of the costs lacks."""
        unknown, low = self.totals.unpriced, self.totals.partly_priced
        sentences = ["A cost that is too low counts as it is."]
        if low:
            start = "That" if unknown else "The cost"
            sentences.insert(0, f"{start} of {low:,} session{'s' * (low != 1)} is known only in part.")
        if unknown:
            sentences.insert(0, f"The cost of {unknown:,} session{'s' * (unknown != 1)} is unknown.")
        return " ".join(sentences)


class GroupedList(NamedTuple):
    """The groups of a list, and the sessions of the open group."""

    rows: list[GroupRow]
    has_more: bool
    """Whether there are further groups."""
    sessions: SessionQuerySet


class GroupingLink(NamedTuple):
    label: str
    url: str
    is_on: bool


def grouped(sessions: SessionQuerySet, filters: SessionFilters, order: Order) -> GroupedList:
    """The groups of these sessions, which the filters name."""
    groups = session_groups(sessions, filters.group, order)
    rows = []
    for group in groups[:MAX_GROUPS]:
        label = visible(group.value) or _MISSING[filters.group]
        is_open = group.value == filters.opened
        url = list_url(filters.but(opened=None if is_open else group.value))
        rows.append(GroupRow(group, label, url, is_open))
    shown = sessions.none() if filters.opened is None else sessions.filter(**{filters.group: filters.opened})
    return GroupedList(rows, len(groups) > MAX_GROUPS, shown)


def grouping_links(filters: SessionFilters) -> list[GroupingLink]:
    """A link for each grouping, and one for none."""
    return [
        GroupingLink(_TITLES[name], list_url(filters.but(group=name, opened=None)), filters.group == name)
        for name in ("", *GROUPINGS)
    ]
