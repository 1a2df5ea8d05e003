"""The page that compares two runs, and the form that chooses them."""

from functools import partial

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, current_project, find_session, projects, signed_in
from dashboard.compared_steps import compare_steps
from dashboard.location import Location, read_number
from dashboard.run_comparison import (
    BEFORE,
    MAX_WORDS,
    PAGE,
    candidates,
    compared_steps_address,
    comparison_address,
    context_changes,
    first_candidates,
    page_rows,
    place_parameter,
    read_place,
    side_of,
)
from historyapp.core.errors import Invalid, NotFound
from historyapp.core.text_diff import MAX_COMPARED
from historyapp.models import Session
from historyapp.models.history import History
from historyapp.services.run_comparisons import (
    RunComparison,
    RunReference,
    compare_runs,
    parse_reference,
    read_run,
)
from historyapp.services.step_pairs import align_steps

MAX_REFERENCE = 100
"""Characters of a reference."""


@signed_in
@require_safe
def compare_sessions(request: PersonRequest) -> HttpResponse:
    """Two runs side by side from the pair ``at`` on; without both runs the form. For htmx further pairs."""
    texts = [request.GET.get(name, "").strip()[:MAX_REFERENCE] for name in ("a", "b")]
    if "after_step" in request.GET:
        return _compare_moment(request, texts)
    if not all(texts):
        return _form(request, texts)
    try:
        a, b = (parse_reference(name, text) for name, text in zip("ab", texts, strict=True))
        comparison = compare_runs(a, b, partial(find_session, request))
    except Invalid as error:
        return _form(request, texts, error.detail, status=422)
    at = request.GET.get("at", "")
    addresses = {"next_page": comparison_address(a, b), "steps_page": compared_steps_address(a, b)}
    shown = _rows(comparison, at) | {"a": a, "b": b} | addresses
    if request.htmx:
        return render(request, "run_comparison/_pair_rows.html", shown | _sides(comparison))
    own_projects = projects(request)
    project = comparison.a.history.session.project
    context = {"projects": own_projects, "project": project, "swapped": comparison_address(b, a)}
    return render(request, "run_comparison/page.html", shown | context | _sides(comparison))


@signed_in
@require_safe
def compared_contexts(request: PersonRequest) -> HttpResponse:
    """The contexts before two steps, ``at``, and how they differ; without htmx the comparison."""
    a, b = _references(request)
    place = read_place(request.GET.get("at", ""))
    if not request.htmx or place is None:
        return redirect(comparison_address(a, b, place_parameter(place)))
    sides = [read_run(reference, partial(find_session, request)) for reference in (a, b)]
    shown: dict[str, object] = {"place": place, "side_a": sides[0], "side_b": sides[1]}
    try:
        shown["contexts"] = context_changes(sides[0], sides[1], place)
    except Invalid as error:
        shown["refusal"] = error.detail
    return render(request, "run_comparison/_compared_contexts.html", shown)


@signed_in
@require_safe
def compared_steps(request: PersonRequest) -> HttpResponse:
    """How the texts of a pair of steps, ``at``, differ. ``part`` is one diff from character ``start`` on."""
    a, b = _references(request)
    place = read_place(request.GET.get("at", ""))
    run_a, run_b = (read_run(reference, partial(find_session, request)) for reference in (a, b))
    if place is None or not (1 <= place.a <= run_a.steps and 1 <= place.b <= run_b.steps):
        raise Invalid("`at` is not a pair of steps of these runs. Open the comparison again.")
    compared = compare_steps(run_a, run_b, place)
    shown: dict[str, object] = {
        "compared": compared,
        "characters": MAX_COMPARED,
        "place": place,
        "location_a": Location(run_a, place.a),
        "location_b": Location(run_b, place.b),
        "comparison": comparison_address(a, b, place_parameter(place)),
        "address": f"{compared_steps_address(a, b)}&at={place_parameter(place)}",
    }
    if key := request.GET.get("part", ""):
        block = compared.block(key)
        if block is None:
            raise NotFound(f"The texts {key[:100]!r} of these steps do not differ.")
        shown["part"] = block.page(read_number(request.GET, "start") or 0)
        if request.htmx:
            return render(request, "run_comparison/_text_diff.html", shown | {"diff": shown["part"]})
    if request.htmx:
        return render(request, "run_comparison/_compared_steps.html", shown)
    pages = {"projects": projects(request), "project": run_a.session.project}
    return render(request, "run_comparison/steps.html", shown | pages)


def _references(request: PersonRequest) -> tuple[RunReference, RunReference]:
    texts = {name: request.GET.get(name, "").strip()[:MAX_REFERENCE] for name in ("a", "b")}
    a, b = (parse_reference(name, text) for name, text in texts.items())
    return a, b


def _compare_moment(request: PersonRequest, texts: list[str]) -> HttpResponse:
    """Redirects to the comparison of a session after a step with the current session."""
    session, step = _session_of(request, texts), request.GET["after_step"].strip()
    if session is None:
        return _form(request, texts, "Choose a session to compare with one of its earlier steps.", status=422)
    history = History(session)
    if not (step.isascii() and step.isdigit() and len(step) < 10 and 1 <= int(step) < history.steps):
        refusal = "The session needs at least two steps to be compared with an earlier one."
        refusal = f"Choose a step from 1 to {history.steps - 1:,}." if history.steps > 1 else refusal
        return _form(request, texts, refusal, status=422)
    then = RunReference(session.pk, history.row(int(step) + 1).first_position - 1)
    return redirect(comparison_address(then, RunReference(session.pk)))


def _sides(comparison: RunComparison) -> dict[str, object]:
    sides = [side_of(comparison.a, "A", comparison.b), side_of(comparison.b, "B", comparison.a)]
    return {"comparison": comparison, "sides": sides, "side_a": sides[0], "side_b": sides[1]}


def _rows(comparison: RunComparison, at: str) -> dict[str, object]:
    """The rows from a place on; by default from shortly before the first difference."""
    head, _ = comparison.steps.page(0, 50)
    difference, divergence = comparison.first_difference(head), comparison.first_divergence(head)
    marks = {"difference": difference, "divergence": divergence}
    landmarks = {
        name: place_parameter(None if index is None else comparison.steps.places[index])
        for name, index in marks.items()
    }
    place = read_place(at)
    earlier = difference if divergence is not None and (difference or 0) < divergence else None
    context = {
        "counts": comparison.counts(head),
        "landmarks": landmarks,
        "earlier_at": None if earlier is None else comparison.steps_at(earlier),
        "pair_at": None if divergence is None else comparison.steps_at(divergence),
        "difference_at": None if difference is None else comparison.steps_at(difference),
    }
    if at == "start":
        index = 0
    elif place is None:  # shortly before the first difference if that is far away
        index = 0 if difference is None or difference < PAGE // 2 else difference - BEFORE
    elif place in comparison.steps.places[:-1]:
        index = comparison.steps.places.index(place)
    else:  # beyond the steps that were aligned at once
        a, b = comparison.a.history, comparison.b.history
        if not (1 <= place.a <= a.steps + 1 and 1 <= place.b <= b.steps + 1):
            raise Invalid("`at` is not a pair of steps of these runs. Open the comparison again.")
        return context | page_rows(align_steps(a, b, place), 0)
    return context | page_rows(comparison.steps, index, **marks) | {"skipped": index if not place else 0}


def _form(request: PersonRequest, texts: list[str], refusal: str = "", status: int = 200) -> HttpResponse:
    """The form, with likely candidates for a comparison with the session."""
    own_projects = projects(request)
    session = _session_of(request, texts)
    project = session.project if session else current_project(request, own_projects)
    words = request.GET.get("words", "").strip()[:MAX_WORDS]
    context = {
        "projects": own_projects,
        "project": project,
        "texts": texts,
        "refusal": refusal,
        "of_session": session,
        "words": words,
        "max_words": MAX_WORDS,
        "candidates": candidates(session, words) if session else first_candidates(project, words),
        "step": read_number(request.GET, "step") or "",
    }
    return render(request, "run_comparison/choose_runs.html", context, status=status)


def _session_of(request: PersonRequest, texts: list[str]) -> Session | None:
    """The session of the first valid reference, or None."""
    for name, text in zip("ab", texts, strict=True):
        if text:
            try:
                reference = parse_reference(name, text)
            except Invalid:
                continue
            return find_session(request, reference.session)
    return None
