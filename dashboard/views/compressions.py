"""Compression runs: the list, the page of a run, its progress, and cancelling and retrying it."""

from uuid import UUID

from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import trigger_client_event

from dashboard.access import (
    PersonRequest,
    actor,
    current_project,
    find_session,
    projects,
    signed_in,
    spender,
)
from dashboard.location import newest_step, page_context, read_number
from dashboard.run_folds import folded_runs
from dashboard.session_head import head_context
from dashboard.strategy_rows import LETTERS, needed_letters, shown_row
from dashboard.strategy_rows import PAGE as PAGE_OF_ROWS
from dashboard.views.compression_forms import run_url, wake_workers
from historyapp.core.errors import Invalid
from historyapp.models import CompressionItem, CompressionRun, Session, Summary
from historyapp.models.compressions import RunQuerySet
from historyapp.models.sessions import LARGE_COLUMNS, large_columns
from historyapp.services.compression.start import cancel_run, find_run, retry_run
from historyapp.services.strategy_comparisons import compare_strategies, find_comparison

PAGE, ITEMS = 25, 50
"""Runs on one page of the list, and summaries on one page of a run."""
FRAGMENTS = {"more": "compression/_run_rows.html", "runs": "compression/_runs.html"}
"""The template for each htmx target: older runs, or all runs after a change."""
MAX_SUMMARIES = 50
"""The summaries of a session without runs whose makers are named."""
WATCHED = 60
"""The maximum number of runs whose progress one request returns."""


@signed_in
@require_safe
def compressions(request: PersonRequest) -> HttpResponse:
    """The project's runs, or those of ``session`` below its head, the newest first.

    For htmx: the rows of the next page, or after a change those of the first.
    """
    own_projects = projects(request)
    project = current_project(request, own_projects)
    session_id, before = _read_uuid(request.GET, "session"), _read_uuid(request.GET, "cursor")
    session = find_session(request, session_id) if session_id else None
    shown = CompressionRun.objects.filter(project=project)
    shown = CompressionRun.objects.filter(session=session) if session else shown
    shown = shown.filter(pk__lt=before) if before else shown
    runs = list(_with_titles(shown.newest_first())[: PAGE + 1])
    page = runs[:PAGE]
    context = {
        "project": session.project if session else project,
        "projects": own_projects,
        "of_session": session,
        "runs": page,
        "folds": folded_runs(page),
        "watched": [run for run in page if run.active],
        "older": page[-1].pk if len(runs) > PAGE else None,
        "is_first_page": before is None,
        "is_older": before is not None,
        "made_elsewhere": _made_elsewhere(session) if session and not runs and before is None else [],
    }
    if request.htmx and request.htmx.target in FRAGMENTS:
        return render(request, FRAGMENTS[request.htmx.target], context)
    head = head_context(request, newest_step(session)) if session else {}
    return render(request, "compression/compressions.html", context | head)


def _made_elsewhere(session: Session) -> list[Session]:
    """The other sessions that made summaries of steps which this one shares with them, of its first ones."""
    lineage = session.lineage()
    ends = (1, session.head)
    summaries = Summary.objects.without_texts().first_ending_in(session, lineage, ends, MAX_SUMMARIES)
    makers = {
        summary.made_in_id
        for summary in summaries
        if summary.made_in_id != session.pk
        and lineage.session_at(summary.last_position) == str(summary.session_id)
    }
    return list(Session.objects.filter(pk__in=makers, project=session.project_id).defer(*LARGE_COLUMNS))


def _with_titles(runs: RunQuerySet) -> RunQuerySet:
    return runs.select_related("session").defer(*large_columns("session"))


def _read_uuid(query: QueryDict, name: str) -> UUID | None:
    text = query.get(name, "").strip()
    try:
        return UUID(text) if text else None
    except ValueError:
        raise Invalid(f"{name} is not a valid ID. Reload the list from the start.") from None


@signed_in
@require_safe
def progress(request: PersonRequest) -> HttpResponse:
    """The progress of the runs named by ``run``, which replaces their rows in the page.

    Triggers ``run-ended`` in the page when one of them has ended. Without htmx: the list.
    """
    if not request.htmx:
        return redirect("compressions")
    ids = []
    for text in request.GET.getlist("run")[:WATCHED]:
        try:
            ids.append(UUID(text))
        except ValueError:
            continue
    own_runs = CompressionRun.objects.filter(pk__in=ids, project__members=request.user)
    runs = list(_with_titles(own_runs))
    watched = [run for run in runs if run.active]
    response = render(request, "compression/_runs_progress.html", {"runs": runs, "watched": watched})
    if len(watched) < len(runs):
        trigger_client_event(response, "run-ended")
    return response


@signed_in
@require_safe
def compression(request: PersonRequest, session_id: UUID, run_id: UUID) -> HttpResponse:
    """A run with its summaries after number ``after``, or only failed ones; for htmx the summaries alone."""
    session = find_session(request, session_id)
    run = find_run(session, run_id)
    run.session = session
    only, after = request.GET.get("only", ""), read_number(request.GET, "after") or 0
    if only not in ("", "failed"):
        raise Invalid("`only` must be `failed` or omitted.")
    items = run.items.filter(number__gt=after).select_related("summary").defer("text", "summary__text")
    if only:
        items = items.filter(state=CompressionItem.State.FAILED)
    rows = list(items.order_by("number")[: ITEMS + 1])
    context = {
        **page_context(request, newest_step(session)),
        "run": run,
        "watched": [run] if run.active else [],
        "items": rows[:ITEMS],
        "further": rows[ITEMS - 1].number if len(rows) > ITEMS else None,
        "only": only,
        "is_first_page": not after,
        "joined": "joined" in request.GET,
    }
    template = "_run_items.html" if request.htmx else "compression.html"
    return render(request, f"compression/{template}", context)


@signed_in
@require_safe
def comparison(request: PersonRequest, session_id: UUID, comparison_id: UUID) -> HttpResponse:
    """Two runs side by side, in rows from that of step ``row`` on. For htmx: further rows, or all."""
    session = find_session(request, session_id)
    compared = compare_strategies(session, find_comparison(session, comparison_id))
    runs, recall, start = compared.runs, compared.recall, read_number(request.GET, "row") or 0
    page = compared.page(start, PAGE_OF_ROWS)
    letters = needed_letters(recall)
    context: dict[str, object] = {
        "runs": runs,
        "rows": [shown_row(row, runs, letters) for row in page.rows],
        "further": page.next_step,
        "is_first_page": not start,
    }
    if request.htmx and start:
        context |= {"session": session, "location": newest_step(session)}
        return render(request, "compression/_strategy_rows.html", context)
    sides = []
    for letter, run in zip(LETTERS, runs, strict=True):
        run.session = session
        # The fields of the form that compresses the same steps with the same strategy and options.
        fields = {"strategy": run.strategy, "model": run.model, "again": "1"}
        fields |= {"from_step": str(run.from_step), "to_step": str(run.to_step)}
        fields |= {f"{run.strategy}.{name}": str(value) for name, value in run.options.items()}
        sides.append((letter, run, fields))
    context |= {
        **page_context(request, newest_step(session)),
        "sides": sides,
        "recall": recall,
        "needed": [(name, letters[name.name]) for name in recall.names] if recall else [],
        "watched": [run for run in runs if run.active],
    }
    template = "_comparison.html" if request.htmx else "comparison.html"
    return render(request, f"compression/{template}", context)


@signed_in
@require_POST
def cancel(request: PersonRequest, session_id: UUID, run_id: UUID) -> HttpResponse:
    run = find_run(find_session(request, session_id), run_id)
    return redirect(run_url(cancel_run(run, actor=actor(request))))


@signed_in
@require_POST
def retry(request: PersonRequest, session_id: UUID, run_id: UUID) -> HttpResponse:
    """Retries the failed items, or resumes a cancelled run."""
    session = find_session(request, session_id)
    run = find_run(session, run_id)
    run = retry_run(run, actor=actor(request), spender=spender(request, session.project))
    wake_workers(run)
    return redirect(run_url(run))
