"""The list of sessions: searched, filtered, newest first, a page at a time."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, current_project, projects, signed_in
from historyapp.core.errors import Invalid
from historyapp.core.text import clean
from historyapp.models import Session

PAGE = 50
STATUSES = ("live", "finished", "archived")
UNLISTED = ("closed_spans", "fork_spans", "settings", "metadata")
"""Columns that the list does not show."""


@dataclass(frozen=True, slots=True)
class SessionFilters:
    """The filters in the address; empty ones do not filter."""

    q: str = ""
    status: str = ""
    """Empty: all but archived ones."""
    errors: str = ""
    """``with`` or ``without``."""

    @property
    def query_prefix(self) -> str:
        """The filters as the beginning of a query string: ``q=totals&``, or empty."""
        given = {name: getattr(self, name) for name in ("q", "status", "errors") if getattr(self, name)}
        return f"{urlencode(given)}&" if given else ""


@signed_in
@require_safe
def sessions(request: PersonRequest) -> HttpResponse:
    """The page, or for htmx the results alone (``#results``), or the rows of the next page (``#more``)."""
    mine = projects(request)
    project = current_project(request, mine)
    status, errors = request.GET.get("status", ""), request.GET.get("errors", "")
    if status not in ("", *STATUSES) or errors not in ("", "with", "without"):
        raise Invalid(f"status must be one of {', '.join(STATUSES)}; errors must be with or without.")
    filters = SessionFilters(clean(request.GET.get("q", ""))[:200].strip(), status, errors)
    found = Session.objects.filter(project=project).search(filters.q)
    found = found.filter(status=status) if status else found.exclude(status="archived")
    if errors:
        found = found.filter(errors__gt=0) if errors == "with" else found.filter(errors=0)
    if cursor := request.GET.get("cursor", ""):
        moment, id = _read_cursor(cursor)
        found = found.filter(Q(last_entry_at__lt=moment) | Q(last_entry_at=moment, id__lt=id))
    rows = list(found.newest_first().select_related("forked_from", "spawned_by").defer(*UNLISTED)[: PAGE + 1])
    last = rows[PAGE - 1] if len(rows) > PAGE else None
    context = {
        "project": project,
        "projects": mine,
        "filters": filters,
        "sessions": rows[:PAGE],
        "older": f"{last.last_entry_at.isoformat()}~{last.pk}" if last else "",
        "is_first_page": "cursor" not in request.GET,
    }
    if not request.htmx or request.htmx.history_restore_request:
        return render(request, "sessions.html", context)
    is_more = request.htmx.target == "more"
    return render(request, "_session_rows.html" if is_more else "_session_results.html", context)


def _read_cursor(cursor: str) -> tuple[datetime, UUID]:
    moment, _, id = cursor.partition("~")
    try:
        parsed = datetime.fromisoformat(moment)
        if parsed.tzinfo is not None:
            return parsed.astimezone(UTC), UUID(id)
    except (ValueError, OverflowError):
        pass
    raise Invalid("This cursor does not belong to this list. Reload the list from the start.")
