"""Saving a search of all sessions, and renaming and deleting saved searches."""

from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.access import PersonRequest, actor, current_project, projects, signed_in
from historyapp.core.errors import Conflict, Invalid
from historyapp.models import SavedSearch
from historyapp.services.search.saved import delete_search, rename_search, save_search


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def saved_searches(request: PersonRequest) -> HttpResponse:
    """The list. POST saves the query ``q`` as ``name`` and redirects to its results."""
    if request.method != "POST":
        return _page(request)
    project = current_project(request, projects(request))
    query = request.POST.get("q", "")
    try:
        save_search(project, request.POST.get("name", ""), query, actor=actor(request))
    except (Conflict, Invalid) as error:
        return _page(request, str(error), 409 if isinstance(error, Conflict) else 422)
    return redirect(f"{reverse('search')}?{urlencode({'q': query})}")


@signed_in
@require_POST
def saved_search(request: PersonRequest, search_id: UUID) -> HttpResponse:
    """Renames a search to ``name``, or with ``delete`` deletes it. Redirects to the list."""
    project = current_project(request, projects(request))
    try:
        if "delete" in request.POST:
            delete_search(project, search_id)
        else:
            rename_search(project, search_id, request.POST.get("name", ""))
    except (Conflict, Invalid) as error:
        return _page(request, str(error), 409 if isinstance(error, Conflict) else 422)
    return redirect("saved-searches")


def _page(request: PersonRequest, problem: str = "", status: int = 200) -> HttpResponse:
    own_projects = projects(request)
    project = current_project(request, own_projects)
    shown = {
        "project": project,
        "projects": own_projects,
        "saved": SavedSearch.objects.filter(project=project),
        "problem": problem,
        "q": request.POST.get("q", ""),
        "name": request.POST.get("name", ""),
    }
    return render(request, "search/saved_searches.html", shown, status=status)
