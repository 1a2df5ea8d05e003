"""What a project allows. Members read it; owners change it."""

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from dashboard.access import PersonRequest, actor, current_project, is_owner, projects, signed_in
from historyapp.services.projects import change_project


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def project_settings(request: PersonRequest) -> HttpResponse:
    """The form of the chosen project; POST saves it."""
    mine = projects(request)
    project = current_project(request, mine)
    owner = is_owner(request, project)
    if request.method == "POST":
        if not owner:
            raise PermissionDenied("Only an owner of the project can change its settings.")
        changes = {"paid_automatic_compression": "paid_automatic_compression" in request.POST}
        change_project(project, changes, actor=actor(request))
        return redirect(reverse("project-settings") + "?saved=1")
    context = {"project": project, "projects": mine, "is_owner": owner, "saved": "saved" in request.GET}
    return render(request, "project_settings.html", context)
