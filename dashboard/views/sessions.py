"""The list of sessions: searched, filtered and sorted, a page at a time."""

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

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
from historyapp.models.changes import newest_cursor
from historyapp.models.recent import active_sessions
from historyapp.models.session_filters import FacetCounts, facet_counts
from historyapp.models.session_folds import TOP_LEVEL, child_counts
from historyapp.models.session_lists import Order, exit_statuses, page_of
from historyapp.models.sessions import SessionQuerySet, columns_except
from historyapp.services.bulk.progress import progress_of
from historyapp.services.preferences import save_list_preference

PAGE = 25
MAX_OPENED = 25
"""The maximum number of sessions whose forks and sub-agents stay unfolded when the list is updated."""
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

    rows: list[tuple[Session, int]]
    """Each session, and where the distinct part of its title begins."""
    older: str
    """Not empty if there are more."""


@signed_in
@require_safe
def sessions(request: PersonRequest) -> HttpResponse:
    """The page, or for htmx the results alone (``#results``), or the rows of the next page (``#more``)."""
    own_projects = projects(request)
    project = current_project(request, own_projects)
    after = newest_cursor(project.pk)  # read before the list, so that the page reloads any later change
    filters, choice = SessionFilters.read(request.GET), choice_of(request.user)
    order = filters.order or choice.order
    if found := search_steps(project.pk, filters.q) if has_filters(filters.q) else None:
        filters = filters.but(found=found.sessions)
    listed = _listed(filters, project.pk)
    if are_folded := not filters.has_filters:
        listed = listed.filter(TOP_LEVEL)
    groups = grouped(listed, filters, order) if filters.group else None
    if groups is not None:
        listed = groups.sessions
    page = page_of(
        listed, order, f"{project.pk} {filters.query}", cursor=request.GET.get("cursor", ""), limit=PAGE
    )
    begins = distinct_parts([session.title for session in page.sessions])
    opened = _opened(request.GET.getlist("open"), page.sessions, choice.order)
    shown = [*page.sessions, *(session for inner in opened.values() for session, _ in inner.rows)]
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
        "rows": list(zip(page.sessions, begins, strict=True)),
        "opened": opened,
        "folded": child_counts([session.pk for session in shown]),
        "exit_statuses": exit_statuses(shown),
        "older": page.cursor,
        "is_first_page": "cursor" not in request.GET,
        "events_after": after,
    }
    is_fragment = bool(request.htmx) and not request.htmx.history_restore_request
    if is_fragment and request.htmx.target == "more":
        return render(request, "session_list/_rows.html", context | {"is_later": True})
    counts, facets = _facets(project.pk, filters, found)
    listed_total = counts.top_level if are_folded else counts.total
    context |= {
        "facets": facets,
        "archived": archived_link(facets),
        "chips": chosen_chips(filters),
        "unfiltered_url": list_url(filters.removed()),
        "total": listed_total,
        "folded_total": counts.total - listed_total,
        "at_work": active_sessions(project.pk) if "cursor" not in request.GET else [],
    }
    if not is_fragment:
        context |= _above_list(project.pk)
    return render(request, "session_list/_results.html" if is_fragment else "session_list/page.html", context)


def _above_list(project: UUID) -> dict[str, object]:
    """The running bulk action, and the saved searches with the lists of their sessions."""
    running = BulkAction.objects.active().filter(project=project).order_by("-pk").first()
    saved = SavedSearch.objects.filter(project=project)[:SHOWN_SAVED]
    return {
        "progress": progress_of(running) if running else None,
        "saved": [(one, address) for one in saved if (address := sessions_address(one.query))],
    }


def _facets(
    project: UUID, filters: SessionFilters, found: FoundSessions | None
) -> tuple[FacetCounts, list[FacetGroup]]:
    """How many sessions match, and the facets."""
    problem = found.problem if found else ""
    counted = filters.but(q="", found=None) if problem else filters  # so that the facets do not disappear
    counts = facet_counts(counted.within(Session.objects.filter(project=project)), counted.criteria)
    groups = facet_groups(filters, counts)
    return counts._replace(total=0, top_level=0) if problem else counts, groups


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
    inner = _children_of(parent, choice.order)
    shown = [parent, *(session for session, _ in inner.rows)]
    context = {
        "parent": parent,
        "inner": inner,
        "choice": choice,
        "folded": child_counts([session.pk for session in shown]),
        "exit_statuses": exit_statuses(shown),
    }
    return render(request, "session_list/_folded_rows.html", context)


def _children_of(parent: Session, order: Order) -> FoldedRows:
    filters = SessionFilters(parent=parent.pk)
    page = page_of(_listed(filters, parent.project_id), order, filters.query, limit=PAGE)
    begins = distinct_parts([session.title for session in page.sessions])
    return FoldedRows(list(zip(page.sessions, begins, strict=True)), page.cursor)


def _opened(ids: Iterable[str], listed: Iterable[Session], order: Order) -> dict[UUID, FoldedRows]:
    """The forks and sub-agents of listed sessions that the reader has unfolded, also of unfolded ones.

    Args:
        ids: the sessions. Those that are not listed are ignored.
    """
    wanted, opened, waiting = set(ids), dict[UUID, FoldedRows](), list(listed)
    while waiting and len(opened) < MAX_OPENED:
        session = waiting.pop(0)
        if str(session.pk) in wanted and session.pk not in opened:
            opened[session.pk] = _children_of(session, order)
            waiting += [child for child, _ in opened[session.pk].rows]
    return opened


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
