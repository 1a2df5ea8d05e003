"""One step: its panel, the folded parts of it and its raw entries."""

import re
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, signed_in
from dashboard.place import Place, page_context, place_of, whole_number
from dashboard.rendering.blocks import Block
from dashboard.rendering.step import load_inputs, load_step, raw_blocks
from historyapp.core.errors import NotFound

CACHED = 600
"""Seconds that a browser keeps a step of one revision of its session, for playing back and forth."""
_OF_A_CALL = re.compile(r"(?:call|result)-(\d{1,9})")


@signed_in
@require_safe
def step(request: PersonRequest, session_id: UUID, number: int) -> HttpResponse:
    """The panel of a step. Without htmx: the page with the playhead there."""
    place = place_of(request, session_id, number)
    if not request.htmx:
        return redirect(place.here)
    view = load_step(place.history, place.step)
    response = render(request, "_step.html", {"place": place, "step": view})
    if request.GET.get("revision") == str(place.session.revision):
        response["Cache-Control"] = f"private, max-age={CACHED}"
    return response


@signed_in
@require_safe
def calls(request: PersonRequest, session_id: UUID, number: int) -> HttpResponse:
    """Further parallel calls of a step, from call ``from``, which is counted from 0."""
    place = place_of(request, session_id, number)
    view = load_step(place.history, place.step, max(0, whole_number(request.GET, "from") or 0))
    if request.htmx:
        return render(request, "_calls.html", {"place": place, "step": view})
    return render(request, "part.html", page_context(request, place) | {"part": "_calls.html", "step": view})


@signed_in
@require_safe
def raw(request: PersonRequest, session_id: UUID, number: int) -> HttpResponse:
    """The step's entries as the log holds them."""
    place = place_of(request, session_id, number)
    blocks = raw_blocks(load_step(place.history, place.step).entries)
    if request.htmx:
        return render(request, "_raw.html", {"place": place, "blocks": blocks})
    return render(
        request, "part.html", page_context(request, place) | {"part": "_raw.html", "blocks": blocks}
    )


@signed_in
@require_safe
def block(request: PersonRequest, session_id: UUID, number: int, key: str) -> HttpResponse:
    """More of one of a step's texts, from character ``start``."""
    place = place_of(request, session_id, number)
    page = _block(place, key).page(whole_number(request.GET, "start") or 0)
    if request.htmx:
        return render(request, "_block_page.html", {"place": place, "shown": page})
    return render(
        request, "part.html", page_context(request, place) | {"part": "_block_page.html", "shown": page}
    )


def _block(place: Place, key: str) -> Block:
    """One text by its key. In a session without steps, one of what was said to the agent so far."""
    if not place.step:
        blocks = {said.block.key: said.block for said in load_inputs(place.history)}
    else:
        of_call = _OF_A_CALL.match(key)
        view = load_step(place.history, place.step, int(of_call[1]) if of_call else 0)
        blocks = view.blocks
        if key.startswith("raw-"):
            blocks = {block.key: block for block in raw_blocks(view.entries)}
    if key not in blocks:
        raise NotFound(f"Step {place.step} has no part {key}.")
    return blocks[key]
