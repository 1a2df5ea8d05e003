"""The origins of a step's names, and every place of one name."""

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import PersonRequest, signed_in
from dashboard.location import find_location, render_fragment
from dashboard.origins import SHOWN, NameView, place_view
from historyapp.core.identifiers import MAX_IDENTIFIER
from historyapp.core.text import clean
from historyapp.enqueue import ensure_name_index
from historyapp.services.names.origins import origins_of, places_of
from historyapp.services.names.steps import run_names, unseen_files


@signed_in
@require_safe
def origins(request: PersonRequest, session_id: UUID, number: int) -> HttpResponse:
    """The names of a step's action with their origins, and the lines of its results that were used."""
    location = find_location(request, session_id, number)
    step_origins = origins_of(location.history, location.step)
    if not step_origins.is_indexed and ensure_name_index(location.history):
        step_origins = origins_of(location.history, location.step)
    names = [
        NameView(name, place_view(location, name.first), place_view(location, name.first_given))
        for name in step_origins.names
    ]
    shown = {"origins": step_origins, "names": names[:SHOWN], "more_names": names[SHOWN:]}
    return render_fragment(request, "origins/_origins.html", location, shown)


@signed_in
@require_safe
def origin_places(request: PersonRequest, session_id: UUID, number: int) -> HttpResponse:
    """Every place of the name ``name`` up to a step; only the newest if there are many."""
    location = find_location(request, session_id, number)
    ensure_name_index(location.history)
    name = clean(request.GET.get("name", ""))[:MAX_IDENTIFIER]
    places = [place_view(location, place) for place in places_of(location.history, location.step, name)]
    return render_fragment(request, "origins/_places.html", location, {"name": name, "places": places})


@signed_in
@require_safe
def name_unseen_files(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The first files that the agent named without having seen them, with their steps, for the overview."""
    location = find_location(request, session_id)
    names = run_names(location.history)
    files = unseen_files(location.history, names)
    shown = {"files": files, "has_more": names.unseen > len(files)}
    return render_fragment(request, "overview/_unseen_files.html", location, shown)


@signed_in
@require_POST
def index_names(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """Builds the index of names, or lets a worker build it. For htmx the findings, else the overview."""
    location = find_location(request, session_id)
    ensure_name_index(location.history)
    if not request.htmx:
        return redirect("overview", session_id)
    shown = {"names": run_names(location.history), "is_requested": True}
    return render_fragment(request, "overview/_names.html", location, shown)
