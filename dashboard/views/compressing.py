"""Starting a compression: its form with an estimate of what it will cost."""

from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from dashboard.access import PersonRequest, actor, find_session, signed_in
from dashboard.place import Place, page_context
from dashboard.wishes import Asked, Side, asked_in
from historyapp.core.errors import Invalid
from historyapp.core.settings import load_settings
from historyapp.models import CompressionRun, Session
from historyapp.models.history import History
from historyapp.services.compression.start import (
    MOST_COMPARED,
    RunEstimate,
    estimate,
    start_comparison,
    start_run,
)

SIDES = ("a-", "b-")
"""What the names of a comparison's fields begin with."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What one side would cost, or why it cannot be done."""

    side: Side
    estimate: RunEstimate | None = None
    refusal: str = ""


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def compress(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The form; for htmx alone, or its estimate (``#estimate``). POST starts the run, or joins one."""
    session = find_session(request, session_id)
    asked = asked_in(request.POST or request.GET, load_settings(session.settings))
    if request.method == "POST" and "estimate" not in request.POST:
        try:
            (wish,) = asked.wishes()
            started = start_run(session.project, session.pk, wish, actor=actor(request))
        except Invalid:
            return _form(request, session, asked, "compress", status=422)
        wake(started.run)
        return redirect(run_url(started.run) + ("?joined=1" if started.joined else ""))
    return _form(request, session, asked, "compress")


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def compare(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The form for two strategies over the same steps; POST has both tried."""
    session = find_session(request, session_id)
    asked = asked_in(
        _or_some_steps(request.POST or request.GET, session), load_settings(session.settings), SIDES
    )
    if request.method == "POST" and "estimate" not in request.POST:
        try:
            runs = start_comparison(session.project, session.pk, asked.wishes(), actor=actor(request))
        except Invalid as error:
            return _form(request, session, asked, "compare", status=422, refusal=error.detail)
        for run in runs:
            wake(run)
        return redirect("comparison", session.pk, runs[0].comparison)
    return _form(request, session, asked, "compare")


def _or_some_steps(query: QueryDict, session: Session) -> QueryDict:
    """A comparison's form begins with a few steps, as all of them may be too many."""
    if query.get("from_step") or query.get("to_step"):
        return query
    last = max(1, session.steps - load_settings(session.settings).detailed_steps)
    filled = query.copy()
    filled["from_step"], filled["to_step"] = str(max(1, last - 7)), str(last)
    return filled


def _form(
    request: PersonRequest, session: Session, asked: Asked, name: str, *, status: int = 200, refusal: str = ""
) -> HttpResponse:
    history = History(session)
    shown: dict[str, Any] = {
        **page_context(request, Place(history, history.steps)),
        "asked": asked,
        "settings": load_settings(session.settings),
        "expected": _expected(session, asked),
        "active": session.compression_runs.active().filter(trial=False).first(),
        "most_compared": MOST_COMPARED,
        "refusal": refusal,
    }
    if not request.htmx:
        return render(request, f"{name}.html", shown, status=status)
    part = f"_{name}_estimate.html" if request.htmx.target == "estimate" else f"_{name}.html"
    return render(request, part, shown)


def _expected(session: Session, asked: Asked) -> list[Expected]:
    found = []
    for place, side in enumerate(asked.sides):
        try:
            found.append(Expected(side, estimate(session, asked.wishes()[place])))
        except Invalid as error:
            found.append(Expected(side, refusal=error.detail))
    return found


def run_url(run: CompressionRun) -> str:
    """The page of a run; that of the comparison where it is a side of one."""
    if run.comparison:
        return reverse("comparison", args=[run.session_id, run.comparison])
    return reverse("compression", args=[run.session_id, run.pk])


def wake(run: CompressionRun) -> None:
    """Calls workers to the run once it is stored."""
    if run.active:
        transaction.on_commit(partial(_call_workers, run.pk), robust=True)


def _call_workers(run: UUID) -> None:
    from historyapp import tasks  # Celery is loaded by the first compression, not by the server's start

    tasks.wake(run)
