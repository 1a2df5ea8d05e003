"""Jumps to the next or previous step of a kind."""

from uuid import UUID

from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, signed_in
from dashboard.jumps import find_jump
from dashboard.location import find_location
from dashboard.pace import StepTimes, replay_time
from historyapp.core.errors import NotFound


@signed_in
@require_safe
def jump(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """Redirects from a step to the one that ``to`` names; for scripts: that step as JSON.

    For ``to=next-turn``, the JSON also has the end of the step's turn, in milliseconds since 1970.

    Raises:
        NotFound: without scripts, when there is no such step.
    """
    location = find_location(request, session_id)
    jump_target = find_jump(location, request.GET.get("to", ""))
    if request.htmx:
        answer = {
            "step": jump_target.step,
            "searched_to": jump_target.searched_to,
            "reason": jump_target.reason,
        }
        if request.GET["to"] == "next-turn" and location.steps and jump_target.searched_to is None:
            last_step = location.history.row((jump_target.step or location.steps + 1) - 1)
            end = StepTimes(last_step.started_at, last_step.finished_at).end
            answer["ended"] = round(end.timestamp() * 1000) if end else None
        return JsonResponse(answer)
    target = jump_target.step or jump_target.searched_to
    if target is None:
        raise NotFound(jump_target.reason)
    part = "#failure" if request.GET["to"].endswith("-error") else ""
    return redirect(location.address_of(target) + part)


@signed_in
@require_safe
def replay_times(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The remaining time of a replay at some steps; see :class:`dashboard.pace.ReplayTime`."""
    location = find_location(request, session_id)
    if not request.htmx:
        return redirect(location.address)
    return JsonResponse(replay_time(location.history)._asdict())
