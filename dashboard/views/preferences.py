"""A person's choice of project and theme."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from dashboard.access import PROJECT, PersonRequest, projects, signed_in
from dashboard.views.sign_in import local_path
from historyapp.core.errors import Invalid, NotFound

THEMES = ("auto", "light", "dark")
YEAR = 365 * 24 * 3600


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Keeps the theme in a cookie, because the choice belongs to the screen."""
    chosen = request.POST.get("theme", "")
    if chosen not in THEMES:
        raise Invalid(f"theme must be one of {', '.join(THEMES)}.")
    response = redirect(local_path(request, request.headers.get("referer")))
    response.set_cookie("theme", chosen, max_age=YEAR, samesite="Lax", httponly=True)
    return response


@signed_in
@require_POST
def switch_project(request: PersonRequest, project_id: UUID) -> HttpResponse:
    own_projects = projects(request)
    if not any(project.pk == project_id for project in own_projects):
        raise NotFound(f"There is no project {project_id}.")
    request.session[PROJECT] = str(project_id)
    return redirect("sessions")
