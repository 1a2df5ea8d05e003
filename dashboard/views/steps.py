"""One step: its panel, further tool calls, its raw entries and the rest of its long texts."""

import re
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, signed_in
from dashboard.location import find_location, read_number, render_fragment
from dashboard.rendering.step import load_inputs, load_step, raw_blocks
from historyapp.core.errors import NotFound

CACHED = 600
"""Seconds that a browser keeps a step of one revision of its session, for playing back and forth."""
_CALL_KEY = re.compile(r"(?:call|result)-(\d{1,9})")


@signed_in
@require_safe
def step(request: PersonRequest, session_id: UUID, number: int) -> HttpResponse:
    """The panel of a step. Without htmx: the page with the playhead there."""
    location = find_location(request, session_id, number)
    if not request.htmx:
        return redirect(location.address)
    view = load_step(location.history, location.step)
    response = render(request, "_step.html", {"location": location, "step": view})
    if request.GET.get("revision") == str(location.session.revision):
        response["Cache-Control"] = f"private, max-age={CACHED}"
    return response


@signed_in
@require_safe
def calls(request: PersonRequest, session_id: UUID, number: int) -> HttpResponse:
    """Further parallel tool calls of a step, from call ``from``, which is counted from 0."""
    location = find_location(request, session_id, number)
    first_call = max(0, read_number(request.GET, "from") or 0)
    view = load_step(location.history, location.step, first_call)
    return render_fragment(request, "_tool_calls.html", location, {"step": view})


@signed_in
@require_safe
def raw(request: PersonRequest, session_id: UUID, number: int) -> HttpResponse:
    """The step's entries as the log holds them."""
    location = find_location(request, session_id, number)
    blocks = raw_blocks(location.history, location.step)
    return render_fragment(request, "_raw.html", location, {"blocks": blocks})


@signed_in
@require_safe
def block(request: PersonRequest, session_id: UUID, number: int, key: str) -> HttpResponse:
    """The next part of a text of a step, or of an input without a step, from character ``start``."""
    location = find_location(request, session_id, number)
    if not location.step:
        blocks = {view.block.key: view.block for view in load_inputs(location.history)}
    elif key.startswith("raw-"):
        blocks = {block.key: block for block in raw_blocks(location.history, location.step)}
    else:
        call = _CALL_KEY.match(key)
        blocks = load_step(location.history, location.step, int(call[1]) if call else 0).blocks
    if key not in blocks:
        raise NotFound(f"Step {location.step} has no part {key}.")
    page = blocks[key].page(read_number(request.GET, "start") or 0)
    return render_fragment(request, "_block_page.html", location, {"shown": page})
