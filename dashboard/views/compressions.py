"""Compression runs: the list of a project's, a run's own page, how far they are, cancelling and retrying."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import trigger_client_event

from dashboard.access import PersonRequest, actor, current_project, find_session, projects, signed_in
from dashboard.place import Place, page_context, whole_number
from dashboard.views.compressing import run_url, wake
from historyapp.core.errors import Invalid
from historyapp.models import CompressionItem, CompressionRun, Session
from historyapp.models.compressions import RunQuerySet
from historyapp.models.history import History
from historyapp.services.compression.start import cancel_run, find_comparison, find_run, retry_run

PAGE, ITEMS = 25, 50
"""Runs of one page of the list, and summaries of one page of a run."""
WATCHED = 60
"""So many runs are looked after at once."""
SHOWN = 8_000
"""Characters of one text of a comparison that are shown."""


@signed_in
@require_safe
def compressions(request: PersonRequest) -> HttpResponse:
    """The project's runs, or those of ``session``, the newest first; for htmx the rows of the next page."""
    mine = projects(request)
    project = current_project(request, mine)
    of = _uuid(request.GET, "session")
    session = find_session(request, of) if of else None
    found = CompressionRun.objects.filter(session=session) if session else _of_project(project.pk)
    before = _uuid(request.GET, "cursor")
    found = found.filter(pk__lt=before) if before else found
    runs = list(found.newest_first().select_related("session")[: PAGE + 1])
    page = runs[:PAGE]
    context = {
        "project": session.project if session else project,
        "projects": mine,
        "of_session": session,
        "runs": page,
        "watched": [run for run in page if run.active],
        "older": page[-1].pk if len(runs) > PAGE else None,
        "is_first_page": before is None,
    }
    is_more = request.htmx and request.htmx.target == "more"
    return render(request, "_run_rows.html" if is_more else "compressions.html", context)


def _of_project(project: UUID) -> RunQuerySet:
    return CompressionRun.objects.filter(session__project=project)


def _uuid(query: QueryDict, name: str) -> UUID | None:
    text = query.get(name, "").strip()
    try:
        return UUID(text) if text else None
    except ValueError:
        raise Invalid(f"{name} is not a valid ID. Reload the list from the start.") from None


@signed_in
@require_safe
def progress(request: PersonRequest) -> HttpResponse:
    """How far the runs are that ``run`` names, which replaces what the page shows of them.

    Tells the page with ``run-ended`` when one of them has ended. Without htmx: the list.
    """
    if not request.htmx:
        return redirect("compressions")
    ids = [id for id in request.GET.getlist("run")[:WATCHED] if _is_uuid(id)]
    mine = CompressionRun.objects.filter(pk__in=ids, session__project__members=request.user)
    runs = list(mine.select_related("session"))
    watched = [run for run in runs if run.active]
    response = render(request, "_progress.html", {"runs": runs, "watched": watched})
    if len(watched) < len(runs):
        trigger_client_event(response, "run-ended")
    return response


def _is_uuid(text: str) -> bool:
    try:
        return bool(UUID(text))
    except ValueError:
        return False


@signed_in
@require_safe
def compression(request: PersonRequest, session_id: UUID, run_id: UUID) -> HttpResponse:
    """A run with its summaries after number ``after``, or with those that failed; for htmx these alone."""
    session = find_session(request, session_id)
    run = find_run(session, run_id)
    run.session = session
    only, after = request.GET.get("only", ""), whole_number(request.GET, "after") or 0
    if only not in ("", "failed"):
        raise Invalid("only must be failed, or left out.")
    items = run.items.filter(number__gt=after).select_related("summary").defer("text", "summary__text")
    if only:
        items = items.filter(state=CompressionItem.State.FAILED)
    rows = list(items.order_by("number")[: ITEMS + 1])
    context = {
        **_page(request, session),
        "run": run,
        "watched": [run] if run.active else [],
        "items": rows[:ITEMS],
        "further": rows[ITEMS - 1].number if len(rows) > ITEMS else None,
        "only": only,
        "is_first_page": not after,
        "joined": "joined" in request.GET,
    }
    return render(request, "_run_items.html" if request.htmx else "compression.html", context)


@signed_in
@require_safe
def comparison(request: PersonRequest, session_id: UUID, comparison_id: UUID) -> HttpResponse:
    """Two runs side by side with what they wrote; for htmx the sides alone."""
    session = find_session(request, session_id)
    runs = find_comparison(session, comparison_id)
    for run in runs:
        run.session = session
    context = {
        **_page(request, session),
        "runs": runs,
        "sides": [(run, list(run.items.order_by("number")), _ways(run)) for run in runs],
        "watched": [run for run in runs if run.active],
        "shown": SHOWN,
    }
    return render(request, "_comparison.html" if request.htmx else "comparison.html", context)


def _ways(run: CompressionRun) -> dict[str, str]:
    """The form that has the run's steps summarised in the same way for good."""
    options = {f"{run.strategy}.{name}": str(value) for name, value in run.options.items()}
    steps = {"from_step": str(run.from_step), "to_step": str(run.to_step)}
    return {"strategy": run.strategy, "model": run.model, "again": "1", **steps, **options}


def _page(request: PersonRequest, session: Session) -> dict[str, Any]:
    history = History(session)
    return page_context(request, Place(history, history.steps))


@signed_in
@require_POST
def cancel(request: PersonRequest, session_id: UUID, run_id: UUID) -> HttpResponse:
    run = find_run(find_session(request, session_id), run_id)
    return redirect(run_url(cancel_run(run, actor=actor(request))))


@signed_in
@require_POST
def retry(request: PersonRequest, session_id: UUID, run_id: UUID) -> HttpResponse:
    """Takes up what failed, or what was left when the run was cancelled."""
    run = retry_run(find_run(find_session(request, session_id), run_id), actor=actor(request))
    wake(run)
    return redirect(run_url(run))
