"""The overview of a session: activity, time, tokens, cost and findings."""

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, signed_in
from dashboard.keys import overview_keys
from dashboard.location import find_location
from dashboard.overview import SHOWN, OverviewPage
from dashboard.run_head import run_head
from dashboard.session_head import facts_context, head_context
from historyapp.services.names.steps import run_names
from historyapp.services.overview import overview_of, own_overview


@signed_in
@require_safe
def overview(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The page; for htmx only the computed part, or 204 if ``revision`` has not changed."""
    location = find_location(request, session_id)
    if request.htmx and request.GET.get("revision") == str(location.session.revision):
        return HttpResponse(status=204)
    shown = OverviewPage(overview_of(location.history), location, request.GET.get("rows") == "all")
    context = {
        "shown": shown,
        "session": location.session,
        "location": location,
        "names": run_names(location.history),
        "run_head": run_head(shown.overview),
        "max_rows": SHOWN,
        "shown_slice": f":{SHOWN}",
        "after_shown": f"{SHOWN}:",
    }
    if request.htmx:
        return render(request, "overview/_update.html", {**facts_context(location), **context})
    context["keys"] = overview_keys(location, shown.first_failure)
    return render(request, "overview/page.html", {**head_context(request, location), **context})


@signed_in
@require_safe
def load_run_head(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """How the run ended, its time and its files, for the head of another page; 204 if not counted yet."""
    location = find_location(request, session_id)
    if not request.htmx:
        return redirect("overview", session_id)
    head = run_head(own_overview(location.history))
    if head is None:
        return HttpResponse(status=204)
    context = {"run_head": head, "location": location, "session": location.session}
    return render(request, "session/_run_head.html", context)
