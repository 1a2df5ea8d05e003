"""Bulk actions on sessions: the bar below the list, and the page of an action."""

import time
from typing import Any
from uuid import UUID

from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import PersonRequest, actor, current_project, projects, signed_in, spender
from historyapp import enqueue
from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.core.strategies import STRATEGIES
from historyapp.core.text import clean
from historyapp.models import BulkAction, Project
from historyapp.services.bulk.progress import progress_of
from historyapp.services.bulk.start import (
    BulkRequest,
    cancel_bulk_action,
    check_cost,
    estimate_compressions,
    start_bulk_action,
)
from historyapp.services.bulk.work import process_bulk_action
from historyapp.services.bulk.zip_exports import export_zip

AT_ONCE_SECONDS = 0.5
"""An action that takes longer is continued by a worker."""
MAX_NAME = 200
"""The maximum number of characters of a strategy or a model; further ones are dropped."""


@signed_in
@require_POST
def bulk(request: PersonRequest) -> HttpResponse:
    """Carries out ``action`` on each ``session``. For htmx: the outcome; without htmx: the action's page.

    Compressions are started only once their cost has been shown. ``compare`` leads to the comparison of two.
    """
    project = current_project(request, projects(request))
    kind, sessions = request.POST.get("action", ""), _sessions(request)
    if kind == "compare":
        if len(sessions) != 2:
            raise Invalid(f"Select two sessions to compare; {len(sessions)} are selected.")
        return redirect(f"{reverse('compare-runs')}?a={sessions[0]}&b={sessions[1]}")
    fields = ("strategy", "model")
    strategy, model = (clean(request.POST.get(field, "")).strip()[:MAX_NAME] for field in fields)
    bulk_request = BulkRequest(kind, sessions, _tag(request, kind), strategy, model)
    payer, bulk_estimate = spender(request, project), None
    if kind == BulkAction.Kind.COMPRESS:
        bulk_estimate = estimate_compressions(project, bulk_request, payer)
        shown = {"estimate": bulk_estimate, "bulk_request": bulk_request, "strategies": STRATEGIES.values()}
        if "agreed" not in request.POST or not bulk_estimate.sessions:
            return _respond(request, project, "bulk/_compress.html", shown)
        agreed = request.POST["agreed"]  # the cost that was shown, in millionths of a dollar, or "unknown"
        cost = int(agreed) if agreed.isascii() and agreed.isdecimal() and len(agreed) < 16 else None
        try:
            check_cost(bulk_estimate, cost, accepts_unknown=agreed == "unknown")
        except Conflict:  # the cost has risen since it was shown
            return _respond(request, project, "bulk/_compress.html", shown | {"has_grown": True})
    action = start_bulk_action(
        project, bulk_request, actor=actor(request), spender=payer, accepted=bulk_estimate
    )
    end = time.monotonic() + AT_ONCE_SECONDS
    if not process_bulk_action(action.pk, lambda: time.monotonic() >= end, enqueue.wake):
        enqueue.wake_bulk_action(action.pk)
    if not request.htmx:
        return redirect("bulk-action", action.pk)
    return _respond(
        request, project, "bulk/_action.html", {"progress": progress_of(_find(request, action.pk))}
    )


@signed_in
@require_POST
def exports(request: PersonRequest) -> StreamingHttpResponse:
    """Each ``session`` as a file in one zip, in one of the export formats."""
    project = current_project(request, projects(request))
    format = request.POST.get("format") or "playhead_jsonl"
    export = export_zip(project, _sessions(request), format, actor=actor(request))
    response = StreamingHttpResponse(export.chunks, content_type="application/zip")
    response["Content-Disposition"] = f'attachment; filename="{export.name}"'
    return response


@signed_in
@require_safe
def bulk_action(request: PersonRequest, bulk_id: UUID) -> HttpResponse:
    """The outcome for an action's sessions; for htmx without the page around it."""
    action = _find(request, bulk_id)
    shown = {"progress": progress_of(action), "is_page": "page" in request.GET or not request.htmx}
    return _respond(request, action.project, "bulk/_action.html", shown)


@signed_in
@require_POST
def cancel_bulk(request: PersonRequest, bulk_id: UUID) -> HttpResponse:
    cancel_bulk_action(_find(request, bulk_id), actor=actor(request))
    if not request.htmx:
        return redirect("bulk-action", bulk_id)
    action = _find(request, bulk_id)
    return _respond(request, action.project, "bulk/_action.html", {"progress": progress_of(action)})


def _find(request: PersonRequest, id: UUID) -> BulkAction:
    action = BulkAction.objects.filter(pk=id, project__members=request.user).select_related("project").first()
    if action is None:
        raise NotFound(f"There is no bulk action {id}.")
    return action


def _respond(request: PersonRequest, project: Project, part: str, shown: dict[str, Any]) -> HttpResponse:
    if request.htmx:
        return render(request, part, shown)
    page = {"project": project, "projects": projects(request), "part": part, "is_page": True}
    return render(request, "bulk/page.html", page | shown)


def _sessions(request: PersonRequest) -> list[UUID]:
    try:
        return [UUID(text) for text in request.POST.getlist("session")]
    except ValueError:
        raise Invalid("A selected session has no valid ID. Reload the list.") from None


def _tag(request: PersonRequest, kind: str) -> str:
    if kind not in (BulkAction.Kind.ADD_TAG, BulkAction.Kind.REMOVE_TAG):
        return ""  # the form also sends the field with the other buttons
    tag = " ".join(clean(request.POST.get("tag", "")).split())
    if not tag:
        raise Invalid("Enter a tag in the field Tag, then try again.")
    return tag
