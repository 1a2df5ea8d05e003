"""The list of sessions: searched, filtered and sorted, a page at a time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import PersonRequest, current_project, find_session, projects, signed_in
from dashboard.session_list.columns import COLUMNS, choice_of
from dashboard.session_list.facets import FacetGroup, archived_link, chosen_chips, facet_groups
from dashboard.session_list.filters import SessionFilters, list_url
from dashboard.session_list.groups import grouped, grouping_links
from dashboard.session_list.step_search import FoundSessions, search_steps, sessions_address
from historyapp.core.exporters import EXPORTERS
from historyapp.core.search_hints import hints_of
from historyapp.core.search_query import has_filters
from historyapp.core.titles import distinct_parts
from historyapp.models import BulkAction, SavedSearch, Session
from historyapp.models.bulk_actions import MAX_SESSIONS
from historyapp.models.changes import newest_cursor
from historyapp.models.recent import active_sessions, recording_forks
from historyapp.models.session_filters import FacetCounts, facet_counts
from historyapp.models.session_folds import child_counts, is_top_level
from historyapp.models.session_lists import Order, exit_statuses, page_of
from historyapp.models.sessions import SessionQuerySet, columns_except
from historyapp.services.bulk.progress import progress_of
from historyapp.services.preferences import save_list_preference

PAGE = 25
MAX_OPENED = 25
"""The maximum number of sessions whose forks and sub-agents stay unfolded when the list is updated."""
MAX_ROWS = 250
"""With this many rows, no further session stays unfolded."""
SHOWN_SAVED = 12
"""Saved searches above the list."""
_PARENTS = ("forked_from", "spawned_by")
UNLISTED = ("closed_spans", "fork_spans", "settings", "search_text", *columns_except({"title"}, *_PARENTS))
"""Columns that the list does not show."""


BULK_BUTTONS = (
    ("add_tag", "Add tag"),
    ("remove_tag", "Remove tag"),
    ("archive", "Archive"),
    ("unarchive", "Unarchive"),
    ("compress", "Compress…"),
)
"""The actions on the selected sessions, each with the title of its button."""


class FoldedRows(NamedTuple):
    """The forks and sub-agents of a session."""

    rows: "list[ListedSession]"
    older: str
    """Not empty if there are more."""


class ListSelection(NamedTuple):
    """The sessions that the address of a list selects."""

    filters: SessionFilters
    found: FoundSessions | None
    """What a search of steps found; null if the address has none."""
    has_row: Q | None
    """Whether a session has a row of its own; null: each has."""
    listed: SessionQuerySet


@dataclass
class ListedSession:
    """A row of the list."""

    session: Session
    begins: int
    """Where the distinct part of its title begins."""
    inner: FoldedRows | None = None
    """Its forks and sub-agents if they are unfolded below this row."""


@signed_in
@require_safe
def sessions(request: PersonRequest) -> HttpResponse:
    """The page, or for htmx the results alone (``#results``), or the rows of the next page (``#more``)."""
    own_projects = projects(request)
    project = current_project(request, own_projects)
    after = newest_cursor(project.pk)  # read before the list, so that the page reloads any later change
    filters, found, has_row, listed = _selection(request.GET, project.pk)
    choice = choice_of(request.user)
    order = filters.order or choice.order
    groups = grouped(listed, filters, order) if filters.group else None
    if groups is not None:
        listed = groups.sessions
    page = page_of(
        listed, order, f"{project.pk} {filters.query}", cursor=request.GET.get("cursor", ""), limit=PAGE
    )
    rows = _rows_of(page.sessions)
    shown = _unfold(request.GET.getlist("unfolded"), rows, choice.order)
    at_work = active_sessions(project.pk)
    context = {
        "project": project,
        "projects": own_projects,
        "filters": filters,
        "found": found,
        "hints": hints_of(filters.q),
        "choice": choice,
        "order": order,
        "all_columns": COLUMNS.values(),
        "bulk_now": BULK_BUTTONS,
        "formats": EXPORTERS.values(),
        "groups": groups,
        "groupings": grouping_links(filters),
        "rows": rows,
        "folded": child_counts([session.pk for session in shown]),
        "recording": recording_forks(project.pk, at_work),
        "exit_statuses": exit_statuses(shown),
        "older": page.cursor,
        "is_first_page": "cursor" not in request.GET,
        "events_after": after,
    }
    is_fragment = bool(request.htmx) and not request.htmx.history_restore_request
    if is_fragment and request.htmx.target == "more":
        return render(request, "session_list/_rows.html", context | {"is_later": True})
    counts, facets = _facets(project.pk, filters, found, has_row)
    context |= {
        "facets": facets,
        "archived": archived_link(facets),
        "chips": chosen_chips(filters),
        "unfiltered_url": list_url(filters.removed()),
        "total": counts.listed,
        "folded_total": counts.total - counts.listed,
        "can_select_all": bool(page.cursor) and not groups and counts.listed <= MAX_SESSIONS,
        "at_work": at_work if "cursor" not in request.GET else [],
    }
    if not is_fragment:
        context |= _above_list(project.pk)
    return render(request, "session_list/_results.html" if is_fragment else "session_list/page.html", context)


@signed_in
@require_safe
def listed_sessions(request: PersonRequest) -> HttpResponse:
    """The IDs of the sessions on all pages of a list, as hidden fields of the form of bulk actions.

    At most as many as one action takes.
    """
    project = current_project(request, projects(request))
    listed = _selection(request.GET, project.pk).listed.order_by("-pk")
    ids = listed.values_list("pk", flat=True)[:MAX_SESSIONS]
    return render(request, "bulk/_sessions.html", {"sessions": ids})


def _selection(query: QueryDict, project: UUID) -> ListSelection:
    filters, has_row = SessionFilters.read(query), None
    if found := search_steps(project, filters.q) if has_filters(filters.q) else None:
        filters = filters.but(found=found.sessions)
    listed = _listed(filters, project)
    if not filters.has_filters:
        has_row = is_top_level(Session.objects.filter(project=project))
        listed = listed.filter(has_row)
    return ListSelection(filters, found, has_row, listed)


def _above_list(project: UUID) -> dict[str, object]:
    """The running bulk action, and the saved searches with the lists of their sessions."""
    running = BulkAction.objects.active().filter(project=project).order_by("-pk").first()
    saved = SavedSearch.objects.filter(project=project)[:SHOWN_SAVED]
    return {
        "progress": progress_of(running) if running else None,
        "saved": [(one, address) for one in saved if (address := sessions_address(one.query))],
    }


def _facets(
    project: UUID, filters: SessionFilters, found: FoundSessions | None, has_row: Q | None
) -> tuple[FacetCounts, list[FacetGroup]]:
    """How many sessions match, and the facets."""
    problem = found.problem if found else ""
    counted = filters.but(q="", found=None) if problem else filters  # so that the facets do not disappear
    counts = facet_counts(counted.within(Session.objects.filter(project=project)), counted.criteria, has_row)
    groups = facet_groups(filters, counts)
    return counts._replace(total=0, listed=0) if problem else counts, groups


def _listed(filters: SessionFilters, project: UUID) -> SessionQuerySet:
    """The sessions that match, with the columns that a row shows."""
    listed = filters.apply(Session.objects.filter(project=project))
    return listed.select_related(*_PARENTS, "annotation").defer(*UNLISTED)


@signed_in
@require_safe
def folded_sessions(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The rows of a session's forks and sub-agents, which follow its own row."""
    parent = find_session(request, session_id)
    choice = choice_of(request.user)
    row = ListedSession(parent, begins=0)
    shown = _unfold([str(parent.pk)], [row], choice.order)
    context = {
        "row": row,
        "choice": choice,
        "folded": child_counts([session.pk for session in shown]),
        "recording": recording_forks(parent.project_id, active_sessions(parent.project_id)),
        "exit_statuses": exit_statuses(shown),
    }
    return render(request, "session_list/_folded_rows.html", context)


def _rows_of(sessions: Sequence[Session]) -> list[ListedSession]:
    begins = distinct_parts([session.title for session in sessions])
    return [ListedSession(session, begin) for session, begin in zip(sessions, begins, strict=True)]


def _children_of(parent: Session, order: Order) -> FoldedRows:
    filters = SessionFilters(parent=parent.pk)
    page = page_of(_listed(filters, parent.project_id), order, filters.query, limit=PAGE)
    return FoldedRows(_rows_of(page.sessions), page.cursor)


def _unfold(ids: Iterable[str], listed: Iterable[ListedSession], order: Order) -> list[Session]:
    """Adds the forks and sub-agents that the reader has unfolded. Returns the sessions of all rows.

    A session that is a fork of one session and a sub-agent of another is listed below both, but unfolded only
    once: if each were unfolded below both of its parents, 25 sessions would have 200,000 rows.

    Args:
        ids: the unfolded sessions. Those that are not listed are ignored.
    """
    folded, rows = set(ids), list(listed)
    left = MAX_OPENED
    for row in rows:  # a list that grows while it is read
        id = str(row.session.pk)
        if id in folded and left and len(rows) < MAX_ROWS:
            folded.remove(id)
            left -= 1
            row.inner = _children_of(row.session, order)
            rows += row.inner.rows
    return [row.session for row in rows]


@signed_in
@require_POST
def keep_columns(request: PersonRequest) -> HttpResponse:
    """Saves the person's columns and order, and redirects to the list."""
    columns = [name for name in request.POST.getlist("column") if name in COLUMNS]
    save_list_preference(request.user, columns, Order.parse(request.POST.get("order", "")))
    filters = SessionFilters.read(QueryDict(request.POST.get("filters", "")[:2000]))
    response = redirect("sessions")
    if query := filters.but(order=None).query:
        response["Location"] += f"?{query}"
    return response
