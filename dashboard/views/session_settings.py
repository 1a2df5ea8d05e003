"""The settings of a session."""

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from dashboard.access import PersonRequest, actor, find_session, signed_in
from dashboard.place import Place, page_context
from dashboard.settings_form import faults_of, fields_of, settings_in
from historyapp.core.settings import SessionSettings, load_settings
from historyapp.core.strategies import STRATEGIES
from historyapp.models.history import History
from historyapp.services.compression.start import choose_model
from historyapp.services.sessions import change_session


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def session_settings(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The form; POST keeps all of it, or with ``reset`` the defaults."""
    session = find_session(request, session_id)
    values, faults = session.settings, {}
    if request.method == "POST":
        values = {} if "reset" in request.POST else settings_in(request.POST)
        faults = faults_of(values)
        if not faults:
            settings = SessionSettings.model_validate(values).model_dump()
            change_session(session.project, session.pk, {"settings": settings}, actor=actor(request))
            return redirect(reverse("session-settings", args=[session.pk]) + "?saved=1")
    history = History(session)
    context = {
        **page_context(request, Place(history, history.steps)),
        "groups": fields_of(values, faults),
        "faults": faults,
        "saved": "saved" in request.GET,
        "note": _note(load_settings(session.settings)),
    }
    return render(request, "session_settings.html", context, status=422 if faults else 200)


def _note(settings: SessionSettings) -> str:
    """Why the model cannot be asked, where that is so."""
    strategy = STRATEGIES.get(settings.compression_strategy)
    return choose_model(strategy, None, settings).note if strategy else ""
