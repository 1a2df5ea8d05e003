"""The settings of a session."""

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from dashboard.access import PersonRequest, actor, find_session, is_owner, signed_in, spender
from dashboard.forms.caps import cap_form
from dashboard.forms.settings import find_errors, form_groups, read_settings
from dashboard.location import newest_step
from dashboard.session_head import head_context
from historyapp.core.settings import SessionSettings, load_settings
from historyapp.core.strategies.ai_summary import TASK
from historyapp.services.compression.request import model_note
from historyapp.services.sessions import change_session


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def session_settings(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The form; POST saves it, or with ``reset`` the defaults."""
    session = find_session(request, session_id)
    values, errors = session.settings, {}
    if request.method == "POST":
        values = {} if "reset" in request.POST else read_settings(request.POST)
        errors = find_errors(values)
        if not errors:
            settings = SessionSettings.model_validate(values).model_dump()
            change_session(
                session.project,
                session.pk,
                {"settings": settings},
                actor=actor(request),
                spender=spender(request, session.project),
            )
            return redirect(reverse("session-settings", args=[session.pk]) + "?saved=1")
    stored = load_settings(session.settings)
    context = {
        **head_context(request, newest_step(session)),
        "groups": form_groups(values, errors, session.project.summary_instruction or TASK),
        "errors": errors,
        "saved": "saved" in request.GET,
        "note": model_note(stored, session.project),
        "caps": cap_form(session.project, session),
        "is_owner": is_owner(request, session.project),
    }
    return render(request, "session/settings.html", context, status=422 if errors else 200)
