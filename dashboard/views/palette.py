"""The palette's results, and its page for browsers without scripts."""

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, current_project, projects, signed_in
from dashboard.location import Location, find_location
from dashboard.palette import MAX_CHARACTERS, search
from historyapp.core.errors import Invalid
from historyapp.core.text import clean


@signed_in
@require_safe
def palette(request: PersonRequest) -> HttpResponse:
    """The results for ``q`` in the project, and in ``session`` at ``step``. For htmx only the options."""
    own_projects, location = projects(request), _location(request)
    project = location.session.project if location else current_project(request, own_projects)
    text = clean(request.GET.get("q", ""))[:MAX_CHARACTERS]
    groups = search(project, text, location, is_staff=request.user.is_staff)
    shown = {"groups": groups, "text": text, "in_dialog": bool(request.htmx)}
    if request.htmx:
        return render(request, "palette/_results.html", shown)
    kept_fields = [
        (name, request.GET[name]) for name in ("session", "step", "as_of") if request.GET.get(name)
    ]
    page = {"project": project, "projects": own_projects, "location": location, "kept": kept_fields}
    if location:
        page["session"] = location.session
    return render(request, "palette/page.html", shown | page)


def _location(request: PersonRequest) -> Location | None:
    """The place in the session in view, or None.

    Raises:
        Invalid: when ``session`` is not an ID.
        NotFound: when the person cannot see the session, or it has no such step.
    """
    text = request.GET.get("session", "")
    if not text:
        return None
    try:
        session = UUID(text)
    except ValueError:
        raise Invalid("session must be the ID of a session.") from None
    return find_location(request, session)
