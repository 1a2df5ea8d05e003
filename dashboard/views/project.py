"""What a project allows. Members read it; owners change it."""

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from dashboard.access import PersonRequest, actor, current_project, is_owner, projects, signed_in
from historyapp.core.errors import Invalid
from historyapp.core.usage import MICRO
from historyapp.services.caps import caps_of, set_caps
from historyapp.services.projects import change_project
from historyapp.services.transactions import writing

PERIODS = {"day": "Daily cap", "month": "Monthly cap"}
"""Periods of spending caps, with the labels of their fields."""
MOST_DOLLARS = 1_000_000_000


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
        limits = {period: read_dollars(request.POST.get(f"{period}_cap", "")) for period in PERIODS}
        with writing():
            set_caps(project, limits, actor=actor(request))
            change_project(project, changes, actor=actor(request))
        return redirect(reverse("project-settings") + "?saved=1")
    caps = {cap.period: cap for cap in caps_of(project)}
    context = {
        "project": project,
        "projects": mine,
        "is_owner": owner,
        "saved": "saved" in request.GET,
        "caps": [(period, label, caps.get(period)) for period, label in PERIODS.items()],
    }
    return render(request, "project_settings.html", context)


def read_dollars(text: str) -> int | None:
    """Millionths of a dollar; None for an empty field."""
    text = text.strip()
    if not text:
        return None
    try:
        dollars = float(text)
    except ValueError:
        dollars = -1
    if not 0 <= dollars <= MOST_DOLLARS:
        raise Invalid(f"A spending cap must be a number from 0 to {MOST_DOLLARS:,}, in US dollars, or empty.")
    return round(dollars * MICRO)
