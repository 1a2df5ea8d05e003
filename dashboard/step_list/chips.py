"""The filters of the step list as chips: links that add or remove one filter and keep the others."""

from dataclasses import dataclass, replace

from dashboard.location import Location
from dashboard.rendering.text import visible
from dashboard.step_list.filter import FilterForm
from dashboard.templatetags.playhead import status_label
from historyapp.core.call_subjects import KINDS
from historyapp.core.short_targets import with_short_path
from historyapp.models.step_filters import LIKELY_FAILED

_NAMES = {"unseen": "files not seen before", "gone": "names compacted away"}
"""Words for each value of the filter ``names``."""
_WORDS = {"since": "from", "noted": "bookmarked", "names": "uses", "edited": "edits only"}
"""Words for fields whose name is not clear on its own."""


@dataclass(frozen=True, slots=True)
class FilterChip:
    """A link to the same step with other filters."""

    label: str
    url: str
    count: int | None = None
    """The number of steps that it would show; None if that is unknown without reading them."""
    is_counting: bool = False
    """Whether a worker is still counting these steps."""
    is_on: bool = False
    """Whether the list is filtered by it."""
    kind: str = ""
    """The kind of tool whose icon it has, or empty."""
    title: str = ""
    """The label of an active filter with its whole value."""
    name: str = ""
    """The field of an active or offered filter."""


def quick_chips(location: Location) -> list[FilterChip]:
    """All steps, failed ones, and those of each kind of tool, with the running totals of the newest step."""
    history, form = location.history, location.filter
    newest, is_counting = history.tail.step, location.is_counting
    likely = newest.total_likely_failures if newest else 0
    chips = [FilterChip("all", location.address_without_filter, history.steps, is_on=not form.active)]
    for status, label, count, is_unknown in (
        ("error", "errors", history.tail.totals.errors, False),
        (LIKELY_FAILED, "likely failed", likely, is_counting),
    ):
        is_on = form.status == status
        if count or is_on or is_unknown:
            url = _url(location, form.toggled("status", status))
            chips.append(FilterChip(label, url, None if is_unknown else count, is_unknown, is_on))
    counts = newest.kind_totals if newest else {}
    for kind in KINDS:
        url, is_on = _url(location, form.toggled("kind", kind)), form.kind == kind
        if is_counting:
            chips.append(FilterChip(kind, url, None, True, is_on, kind))
        elif counts.get(kind) or is_on:
            chips.append(FilterChip(kind, url, counts.get(kind, 0), False, is_on, kind))
    return chips


def active_chips(location: Location) -> list[FilterChip]:
    """The filters that no quick chip shows. Each link removes one. Beside a file: a link to its edits."""
    chips: list[FilterChip] = []
    for name, value in location.filter.active.items():
        if name == "kind" or (name == "status" and value in ("error", LIKELY_FAILED)):
            continue
        text = _NAMES.get(value, value) if name == "names" else value
        shown = status_label(value) if name == "status" else visible(text)
        word, url = _WORDS.get(name, name), _url(location, location.filter.toggled(name, value))
        title = word if name in ("noted", "edited") else f"{word} {shown}"
        label = f"{word} {with_short_path(shown)}" if name == "file" else title
        chips.append(FilterChip(label, url, is_on=True, title=title, name=name))
        if name == "file" and not location.filter.edited:
            edits = _url(location, location.filter.toggled("edited", "1"))
            title = "Show only steps that change the file"
            chips.append(FilterChip(_WORDS["edited"], edits, title=title, name="edited"))
    return chips


def _url(location: Location, form: FilterForm) -> str:
    return replace(location, filter=form).address
