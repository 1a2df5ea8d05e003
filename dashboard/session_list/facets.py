"""The facets of the list of sessions: links with counts, and chips that remove a filter."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dashboard.rendering.text import visible
from dashboard.session_list.filters import SessionFilters, list_url
from historyapp.models.session_filters import UNDATED_RUNS, FacetCounts

SHOWN, MAX = 6, 60
"""Values of a facet that are shown at once, and after a click on *more*."""
_TITLES = {
    "agent": "Agent", "model": "Model", "repository": "Repository", "folder": "Folder", "tag": "Tag",
}  # fmt: skip
_STATUSES = {"live": "live or idle", "finished": "finished", "archived": "archived"}
_OUTCOMES = (
    ("errors", "errors", "with", "with errors"),
    ("errors", "errors", "without", "without errors"),
    ("failures", "likely_failures", "with", "with likely failures"),
)
"""Filter, facet, value and words."""
_DATES = {"today": "today", "7-days": "last 7 days", "30-days": "last 30 days", UNDATED_RUNS: "undated"}


class SessionFacetLink(NamedTuple):
    """A value of a facet. Its link adds the filter, or removes it."""

    label: str
    url: str
    sessions: int = 0
    is_on: bool = False


class FacetGroup(NamedTuple):
    """The values of a facet, the most frequent first."""

    title: str
    links: list[SessionFacetLink]
    more: list[SessionFacetLink]
    """Shown on demand."""
    left_out: int = 0
    """The number of further, rarer values."""


def facet_groups(filters: SessionFilters, counts: FacetCounts) -> list[FacetGroup]:
    """All facets that offer a choice."""
    facets, outcomes = counts.facets, []
    for name, facet, value, label in _OUTCOMES:
        count, is_on = facets[facet]["true" if value == "with" else "false"], filters.has(name, value)
        if count or is_on:
            outcomes.append(SessionFacetLink(label, list_url(filters.toggled(name, value)), count, is_on))
    groups = [
        FacetGroup("Status", list(_links(filters, "status", _STATUSES.items(), facets["status"])), []),
        FacetGroup("Outcome", outcomes, []),
        FacetGroup("Newest entry", list(_links(filters, "date", _DATES.items(), facets["date"])), []),
        *(_group(filters, name, title, facets[name]) for name, title in _TITLES.items()),
    ]
    return [group for group in groups if group.links or group.title == "Newest entry"]


def archived_link(groups: Iterable[FacetGroup]) -> SessionFacetLink | None:
    """The link to the archived sessions that match the other filters, unless they are listed already."""
    links = [link for group in groups if group.title == "Status" for link in group.links]
    return next((link for link in links if link.label == "archived" and not link.is_on), None)


def chosen_chips(filters: SessionFilters) -> list[SessionFacetLink]:
    """The active filters. Each link removes one."""
    chips = [SessionFacetLink(f"“{visible(filters.q)}”", list_url(filters.but(q="")))] if filters.q else []
    words = {("date", value): label for value, label in _DATES.items()}
    words |= {("status", value): label for value, label in _STATUSES.items()} | {
        (name, value): label for name, _, value, label in _OUTCOMES
    }
    for name, value in filters.active():
        if name in ("q", "from", "to", "parent"):
            continue
        label = words.get((name, value), visible(value))
        value_label = "without likely failures" if (name, value) == ("failures", "without") else label
        shown = f"{_TITLES[name].lower()}: {value_label}" if name in _TITLES else value_label
        chips.append(SessionFacetLink(shown, list_url(filters.toggled(name, value))))
    for name, word, day in (("first", "from", filters.first), ("last", "to", filters.last)):
        if day:
            chips.append(SessionFacetLink(f"{word} {day.isoformat()}", list_url(filters.but(**{name: None}))))
    if filters.parent:
        chips.append(
            SessionFacetLink("forks and sub-agents of one session", list_url(filters.but(parent=None)))
        )
    return chips


def _group(filters: SessionFilters, name: str, title: str, counts: Counter[str]) -> FacetGroup:
    by_count = sorted((item for item in counts.items() if item[0]), key=lambda item: (-item[1], item[0]))
    missing = [(value, 0) for value in getattr(filters, name) if not counts[value]]
    ordered = sorted(by_count + missing, key=lambda item: not filters.has(name, item[0]))
    links = list(_links(filters, name, ((value, value) for value, _ in ordered[:MAX]), counts))
    return FacetGroup(title, links[:SHOWN], links[SHOWN:], max(0, len(ordered) - MAX))


def _links(
    filters: SessionFilters, name: str, values: Iterable[tuple[str, str]], counts: Counter[str]
) -> Iterator[SessionFacetLink]:
    for value, label in values:
        is_on = filters.has(name, value)
        if counts[value] or is_on:
            yield SessionFacetLink(
                visible(label), list_url(filters.toggled(name, value)), counts[value], is_on
            )
