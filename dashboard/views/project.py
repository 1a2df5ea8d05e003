"""The project's settings. Members read them; owners change them."""

from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.access import (
    PersonRequest,
    actor,
    current_project,
    find_session,
    is_owner,
    projects,
    signed_in,
)
from dashboard.forms.caps import cap_form, capped_sessions, key_forms, save_caps
from dashboard.share_list import project_links
from historyapp.core.errors import NotFound
from historyapp.core.strategies.ai_summary import TASK
from historyapp.models import ApiKey
from historyapp.services.projects import change_project, read_instruction, read_models
from historyapp.services.transactions import writing


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def project_settings(request: PersonRequest) -> HttpResponse:
    """The form of the chosen project; POST saves it."""
    own_projects = projects(request)
    project = current_project(request, own_projects)
    owner = is_owner(request, project)
    if request.method == "POST":
        if not owner:
            raise PermissionDenied("Only an owner of the project can change its settings.")
        changes = {
            "paid_automatic_compression": "paid_automatic_compression" in request.POST,
            "allowed_models": read_models(request.POST.get("allowed_models", "").splitlines()),
            "summary_instruction": read_instruction(request.POST.get("summary_instruction", "")),
        }
        with writing():
            save_caps(request, project)
            change_project(project, changes, actor=actor(request))
        return redirect(reverse("project-settings") + "?saved=1")
    context = {
        "project": project,
        "projects": own_projects,
        "is_owner": owner,
        "saved": "saved" in request.GET,
        "default_instruction": TASK,
        "models": "\n".join(project.allowed_models),
        "caps": cap_form(project),
        "keys": key_forms(project),
        "capped_sessions": capped_sessions(project),
        "list": project_links(project, request.GET),
    }
    return render(request, "project/settings.html", context)


@signed_in
@require_POST
def change_session_caps(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """Saves the spending caps of a session."""
    session = find_session(request, session_id)
    if not is_owner(request, session.project):
        raise PermissionDenied("Only an owner of the project can change spending caps.")
    save_caps(request, session.project, session=session)
    return redirect(reverse("session-settings", args=[session.pk]) + "?saved=1")


@signed_in
@require_POST
def change_key_caps(request: PersonRequest, key_id: UUID) -> HttpResponse:
    """Saves the spending caps of an API key."""
    keys = ApiKey.objects.filter(pk=key_id, project__members=request.user).select_related("project")
    key = keys.first()
    if key is None:
        raise NotFound(f"There is no API key {key_id}.")
    if not is_owner(request, key.project):
        raise PermissionDenied("Only an owner of the project can change spending caps.")
    save_caps(request, key.project, key=key)
    return redirect(reverse("project-settings") + "?saved=1")
