"""Evaluations of policies and budgets: the form, the list, and the page of one."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import PersonRequest, actor, current_project, find_session, projects, signed_in
from dashboard.evaluation_rows import POLICY_WORDS, choice_rows, session_rows, shown_choice
from historyapp import enqueue
from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.core.evaluation.figures import Choice, cautions
from historyapp.core.policies import POLICIES
from historyapp.core.text import clean
from historyapp.models import Evaluation, Project, Session
from historyapp.models.evaluations import MAX_EVALUATED
from historyapp.services.evaluations.results import evaluation_progress
from historyapp.services.evaluations.start import (
    DEFAULT_BUDGETS,
    EvaluationRequest,
    cancel_evaluation,
    start_evaluation,
)
from historyapp.services.sessions import change_session
from historyapp.services.what_ifs import WhatIfOptions, save_what_if

PAGE = 50


@signed_in
@require_POST
def new_evaluation(request: PersonRequest) -> HttpResponse:
    """The form for each ``session``; with ``start`` it starts the evaluation."""
    project = current_project(request, projects(request))
    sessions = _sessions(request)
    error = ""
    if "start" in request.POST:
        try:
            evaluation = start_evaluation(project, _request(request, sessions), actor=actor(request))
        except (Invalid, Conflict) as problem:
            error = problem.detail
        else:
            enqueue.wake_evaluation(evaluation.pk)
            return redirect("evaluation", evaluation.pk)
    own_sessions = Session.objects.filter(project=project, pk__in=sessions[:MAX_EVALUATED]).only("title")
    chosen = request.POST.getlist("policy") if "start" in request.POST else POLICIES
    context = {
        "sessions": sessions,
        "titled": list(own_sessions),
        "policies": [(name, POLICY_WORDS.get(name, ""), name in chosen) for name in POLICIES],
        "budgets": request.POST.get("budgets") or ", ".join(map(str, DEFAULT_BUDGETS)),
        "model": request.POST.get("model", ""),
        "error": error,
    }
    return _page(request, project, "evaluation/new.html", context, status=422 if error else 200)


@signed_in
@require_safe
def evaluations(request: PersonRequest) -> HttpResponse:
    """The project's newest evaluations."""
    project = current_project(request, projects(request))
    newest = Evaluation.objects.filter(project=project).newest(PAGE)
    rows = [(evaluation, counts["done"], counts.total()) for evaluation, counts in newest]
    return _page(request, project, "evaluation/list.html", {"evaluations": rows})


@signed_in
@require_safe
def evaluation(request: PersonRequest, evaluation_id: UUID) -> HttpResponse:
    """The progress and the results of an evaluation; for htmx without the page around it."""
    return _shown(request, _find(request, evaluation_id))


@signed_in
@require_POST
def cancel(request: PersonRequest, evaluation_id: UUID) -> HttpResponse:
    cancelled = cancel_evaluation(_find(request, evaluation_id))
    return _shown(request, cancelled) if request.htmx else redirect("evaluation", evaluation_id)


@signed_in
@require_POST
def use(request: PersonRequest, evaluation_id: UUID) -> HttpResponse:
    """Makes ``choice`` the settings of ``session``, or saves it as a What if under ``name``."""
    evaluation = _find(request, evaluation_id)
    key = request.POST.get("choice", "")
    choice = next((choice for choice in evaluation.choices if choice.key == key), None)
    if choice is None:
        raise Invalid("This evaluation has no such policy and budget. Reload the page.")
    if "session" in request.POST:
        session = find_session(request, _sessions(request)[0])
        change_session(session.project, session.pk, {"settings": choice._asdict()}, actor=actor(request))
        return redirect("session-settings", session.pk)
    options = WhatIfOptions(policy=choice.policy, max_tokens=choice.max_tokens)
    save_what_if(evaluation.project, request.POST.get("name", ""), options, actor=actor(request))
    return _shown(request, evaluation, saved=choice)


def _shown(request: PersonRequest, evaluation: Evaluation, saved: Choice | None = None) -> HttpResponse:
    progress = evaluation_progress(evaluation)
    shown = shown_choice(progress, request.GET.get("choice", ""))
    results = progress.results
    context = {
        "evaluation": evaluation,
        "progress": progress,
        "results": results,
        "choice": shown,
        "choices": choice_rows(progress, shown),
        "rows": session_rows(progress, shown),
        "cautions": cautions(results.sessions, results.unpriced) if results else [],
        "only": progress.items[0] if progress.total == 1 and progress.items[0].exists else None,
        "saved": saved,
    }
    if request.htmx:
        return render(request, "evaluation/_evaluation.html", context)
    return _page(request, evaluation.project, "evaluation/page.html", context)


def _page(
    request: PersonRequest, project: Project, template: str, context: dict[str, Any], status: int = 200
) -> HttpResponse:
    page = {"project": project, "projects": projects(request)}
    return render(request, template, page | context, status=status)


def _find(request: PersonRequest, id: UUID) -> Evaluation:
    evaluation = (
        Evaluation.objects.filter(pk=id, project__members=request.user).select_related("project").first()
    )
    if evaluation is None:
        raise NotFound(f"There is no evaluation {id}.")
    return evaluation


def _sessions(request: PersonRequest) -> list[UUID]:
    try:
        sessions = [UUID(text) for text in request.POST.getlist("session")]
    except ValueError:
        raise Invalid("A selected session has no valid ID. Reload the list.") from None
    if not sessions:
        raise Invalid("No session is chosen. Choose at least one.")
    return sessions


def _request(request: PersonRequest, sessions: list[UUID]) -> EvaluationRequest:
    texts = request.POST.get("budgets", "").replace(",", " ").split()
    if not all(text.isascii() and text.isdecimal() and len(text) < 10 for text in texts):
        raise Invalid("Enter budgets as whole numbers, such as 2000, 8000.")
    policies = request.POST.getlist("policy")
    if not policies:
        raise Invalid("Choose at least one policy.")
    model = clean(request.POST.get("model", "")).strip()[:200]
    return EvaluationRequest(sessions, list(map(int, texts)), policies, model)
