"""The search of all sessions of a project."""

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, current_project, projects, signed_in
from dashboard.search_results import SearchResults, read_cursor
from historyapp.core.errors import Invalid
from historyapp.core.search_hints import hints_of
from historyapp.core.search_query import MAX_CHARACTERS
from historyapp.core.text import clean
from historyapp.enqueue import request_search_index
from historyapp.models import SavedSearch
from historyapp.services.search.results import search
from historyapp.services.search.suggestions import suggestions
from historyapp.wire.problems import SearchTooSlow

PAGE = 20
"""Steps on a page."""
SHOWN_SAVED = 12
"""Saved searches below the field."""


@signed_in
@require_safe
def search_sessions(request: PersonRequest) -> HttpResponse:
    """The page, or for htmx the results alone (``#results``), or the steps of the next page (``#more``).

    A query that cannot be read is explained above the results.
    """
    own_projects = projects(request)
    project = current_project(request, own_projects)
    text, cursor = request.GET.get("q", "").strip(), request.GET.get("cursor", "")
    context = {"project": project, "projects": own_projects, "q": text, "is_first_page": not cursor}
    context["hints"] = [] if cursor else hints_of(text)
    if not request.htmx:
        context["saved"] = SavedSearch.objects.filter(project=project)[:SHOWN_SAVED]
    status = 200
    if text:
        try:
            before = read_cursor(text, cursor)
            results = search(project.pk, text, timezone.now(), PAGE, before)
            context["results"] = SearchResults(results, text)
            if not results.is_up_to_date:
                request_search_index(project.pk)
        except (Invalid, SearchTooSlow) as error:
            context["problem"], status = str(error), 422
    if request.htmx and not request.htmx.history_restore_request:
        template = "search/_hits.html" if request.htmx.target == "more" else "search/_results.html"
        return render(request, template, context)  # htmx does not show responses with an error status
    return render(request, "search/page.html", context, status=status)


@signed_in
@require_safe
def suggest(request: PersonRequest) -> HttpResponse:
    """The suggestions for the typed text, as options of the search field's list."""
    text = clean(request.GET.get("q", ""))[:MAX_CHARACTERS]
    project = current_project(request, projects(request))
    start, choices = suggestions(project.pk, text)
    return render(request, "search/_suggestions.html", {"start": start, "suggestions": choices})
