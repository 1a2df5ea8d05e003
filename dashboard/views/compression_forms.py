"""The forms that start a compression or a comparison, with an estimate of the cost."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from dashboard.access import PersonRequest, actor, find_session, signed_in, spender
from dashboard.forms.accepted import accepted_text, read_accepted
from dashboard.forms.compression import CompressionForm, read_form
from dashboard.location import newest_step, page_context
from historyapp import enqueue
from historyapp.core.errors import Conflict, Invalid
from historyapp.core.settings import load_settings
from historyapp.models import CompressionRun, Session
from historyapp.services.compression.request import AcceptedRun, RunEstimate, RunRequest, estimate
from historyapp.services.compression.start import start_run
from historyapp.services.spending import Spender
from historyapp.services.strategy_comparisons import MAX_COMPARED, start_comparison
from historyapp.wire.problems import SpendForbidden

SIDES = ("a-", "b-")
"""Prefixes of the field names of a comparison's two strategies."""

CHANGED = (
    "Nothing was started: the form, the session or its settings have changed since the estimate was shown. "
    "Check the new estimate, then start it."
)


@dataclass(frozen=True, slots=True)
class StrategyEstimate:
    """What one strategy would cost, or why it cannot run."""

    estimate: RunEstimate | None = None
    refusal: str = ""
    forbidden: str = ""
    """Why this person may not start it."""
    field: str = ""
    """The name of the form's field with the accepted run."""

    @property
    def accepted(self) -> str:
        return accepted_text(self.estimate) if self.estimate else ""


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def compress(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The form; for htmx without a page around it, or only ``#estimate``. POST starts a run or joins one."""
    session = find_session(request, session_id)
    form = read_form(request.POST or request.GET, load_settings(session.settings))
    if request.method != "POST" or "estimate" in request.POST:
        return _form_page(request, session, form, "compress")
    try:
        (run_request,) = form.run_requests()
        accepted = _accepted(request, session, run_request, form.sides[0].prefix)
        started = start_run(
            session.project,
            session.pk,
            run_request,
            actor=actor(request),
            spender=spender(request, session.project),
            accepted=accepted,
        )
    except (Invalid, SpendForbidden):
        return _form_page(request, session, form, "compress", status=422)
    except Conflict as error:
        return _form_page(request, session, form, "compress", status=409, refusal=error.detail)
    wake_workers(started.run)
    return redirect(run_url(started.run) + ("?joined=1" if started.joined else ""))


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def compare(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The form for two strategies over the same steps; POST runs both."""
    session = find_session(request, session_id)
    settings = load_settings(session.settings)
    query: QueryDict = request.POST or request.GET
    if not (query.get("from_step") or query.get("to_step")):  # all steps may be too many to compare
        last = max(1, session.steps - settings.detailed_steps)
        query = query.copy()
        query["from_step"], query["to_step"] = str(max(1, last - 7)), str(last)
    form = read_form(query, settings, SIDES)
    if request.method != "POST" or "estimate" in request.POST:
        return _form_page(request, session, form, "compare")
    try:
        run_requests = form.run_requests()
        sides = zip(run_requests, SIDES, strict=True)
        runs = start_comparison(
            session.project,
            session.pk,
            run_requests,
            actor=actor(request),
            spender=spender(request, session.project),
            accepted=[_accepted(request, session, run_request, prefix) for run_request, prefix in sides],
        )
    except (Invalid, SpendForbidden) as error:
        return _form_page(request, session, form, "compare", status=422, refusal=error.detail)
    except Conflict as error:
        return _form_page(request, session, form, "compare", status=409, refusal=error.detail)
    for run in runs:
        wake_workers(run)
    return redirect("comparison", session.pk, runs[0].comparison)


def _accepted(request: PersonRequest, session: Session, run_request: RunRequest, prefix: str) -> AcceptedRun:
    """The run that the form has shown. If it has shown none, or one for another strategy, model or other
    steps, the run of ``run_request``.

    Raises:
        Invalid: as :func:`estimate`.
        Conflict: when that run was not shown and calls a provider's model.
    """
    now = estimate(session, run_request)
    shown = read_accepted(request.POST.get(f"{prefix}accepted", ""))
    first, last = run_request.from_step or 0, run_request.to_step or 0
    if (
        shown is not None
        and (shown.strategy, shown.model) == (now.strategy, now.model)
        and shown.first_step <= min(shown.last_step, now.last_step)
        and (first <= 0 or first == shown.first_step)
        and (last <= 0 or now.last_step <= shown.last_step <= last)  # a rewind may have cut steps off
    ):
        return shown
    if now.calls:
        raise Conflict(CHANGED)
    return AcceptedRun(now.strategy, now.model, now.last_step, now.cost, now.first_step)


def _form_page(
    request: PersonRequest,
    session: Session,
    form: CompressionForm,
    name: str,
    *,
    status: int = 200,
    refusal: str = "",
) -> HttpResponse:
    estimates, payer = [], spender(request, session.project)
    for number in range(len(form.sides)):
        try:
            shown_estimate = _estimate(session, form.run_requests()[number], payer)
            estimates.append(replace(shown_estimate, field=f"{form.sides[number].prefix}accepted"))
        except Invalid as error:
            estimates.append(StrategyEstimate(refusal=error.detail))
    notes = [each.estimate.note for each in estimates if each.estimate and each.estimate.note]
    shown: dict[str, Any] = {
        **page_context(request, newest_step(session)),
        "form": form,
        "settings": load_settings(session.settings),
        "estimates": estimates,
        "notes": list(dict.fromkeys(notes)),  # both sides of a comparison may have the same one
        "active": session.compression_runs.active().filter(trial=False).first(),
        "max_compared": MAX_COMPARED,
        "refusal": refusal,
    }
    if not request.htmx:
        return render(request, f"compression/{name}.html", shown, status=status)
    part = f"{name}_estimate" if request.htmx.target == "estimate" else name
    return render(request, f"compression/_{part}.html", shown)


def _estimate(session: Session, run_request: RunRequest, payer: Spender) -> StrategyEstimate:
    """The cost of a strategy. A person who may not spend money sees this before starting it."""
    run_estimate = estimate(session, run_request)
    if run_estimate.calls:
        try:
            payer.check(f"A compression with {run_estimate.model}")
        except SpendForbidden as error:
            return StrategyEstimate(run_estimate, forbidden=error.detail)
    return StrategyEstimate(run_estimate)


def run_url(run: CompressionRun) -> str:
    """The page of a run, or of the comparison that it belongs to."""
    if run.comparison:
        return reverse("comparison", args=[run.session_id, run.comparison])
    return reverse("compression", args=[run.session_id, run.pk])


def wake_workers(run: CompressionRun) -> None:
    """Wakes the workers for a run once its transaction is committed."""
    if run.active:
        transaction.on_commit(partial(enqueue.wake, run.pk), robust=True)
