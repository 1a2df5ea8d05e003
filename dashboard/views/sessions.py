"""The list of sessions: searched, filtered, newest first, a page at a time."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.db.models import Q
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, current_project, projects, signed_in
from historyapp.core.dates import UNDATED
from historyapp.core.errors import Invalid
from historyapp.core.text import clean
from historyapp.models import Session
from historyapp.models.sessions import SessionQuerySet

PAGE = 50
STATUSES = ("live", "finished", "archived")
FILTERS = ("q", "status", "errors", "date")
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
    date: str = ""
    """``undated``: only runs whose transcript has no times."""

    @property
    def query_prefix(self) -> str:
        """The filters as the beginning of a query string: ``q=totals&``, or empty."""
        given = {name: getattr(self, name) for name in FILTERS if getattr(self, name)}
        return f"{urlencode(given)}&" if given else ""

    def apply(self, sessions: SessionQuerySet) -> SessionQuerySet:
        """The sessions that match."""
        found = sessions.search(self.q)
        found = found.filter(status=self.status) if self.status else found.exclude(status="archived")
        if self.errors:
            found = found.filter(errors__gt=0) if self.errors == "with" else found.filter(errors=0)
        return found.filter(last_entry_at=UNDATED) if self.date else found


def _read_filters(query: QueryDict) -> SessionFilters:
    status, errors, date = (query.get(name, "") for name in FILTERS[1:])
    if status not in ("", *STATUSES) or errors not in ("", "with", "without") or date not in ("", "undated"):
        names = ", ".join(STATUSES)
        raise Invalid(f"status must be one of {names}, errors with or without, and date undated.")
    return SessionFilters(clean(query.get("q", ""))[:200].strip(), status, errors, date)


@signed_in
@require_safe
def sessions(request: PersonRequest) -> HttpResponse:
    """The page, or for htmx the results alone (``#results``), or the rows of the next page (``#more``)."""
    mine = projects(request)
    project = current_project(request, mine)
    filters = _read_filters(request.GET)
    found = filters.apply(Session.objects.filter(project=project))
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
