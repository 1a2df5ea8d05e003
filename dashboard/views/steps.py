"""One step: its panel, further tool calls, its raw entries and the rest of its long texts."""

import re
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, signed_in
from dashboard.location import Location, find_location, read_number, render_fragment
from dashboard.rendering.blocks import IMAGE, SPLIT, Block
from dashboard.rendering.images import image_bytes
from dashboard.rendering.step import load_inputs, load_step, raw_blocks
from dashboard.rendering.step_images import find_image
from dashboard.rendering.whole_text import WholeText
from dashboard.views.preferences import YEAR
from historyapp.core.errors import NotFound
from historyapp.models.text_search import wanted_text

CACHED = 600
"""Seconds that a browser keeps a step of one revision of its session, for playing back and forth."""
DIFFS = ("unified", SPLIT)
_CALL_KEY = re.compile(r"(?:call|result)-(\d{1,9})")


@signed_in
@require_safe
def step(request: PersonRequest, session_id: UUID, number: int) -> HttpResponse:
    """The panel of a step. Without htmx: the page with the playhead there."""
    location = find_location(request, session_id, number)
    if not request.htmx:
        return redirect(location.address)
    view = load_step(location.history, location.step)
    response = render(request, "step/_step.html", {"location": location, "step": view})
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
    return render_fragment(request, "step/_tool_calls.html", location, {"step": view})


@signed_in
@require_safe
def raw(request: PersonRequest, session_id: UUID, number: int) -> HttpResponse:
    """The step's entries as the log holds them."""
    location = find_location(request, session_id, number)
    blocks = raw_blocks(location.history, location.step)
    return render_fragment(request, "step/_raw.html", location, {"blocks": blocks})


@signed_in
@require_safe
def block(request: PersonRequest, session_id: UUID, number: int, key: str) -> HttpResponse:
    """The next part of a text of a step, or of an input without a step, from character ``start``.

    ``diff`` shows diffs side by side or unified, and a cookie keeps the choice.
    """
    location = find_location(request, session_id, number)
    page = _find_block(location, key).page(read_number(request.GET, "start") or 0)
    chosen = request.GET.get("diff", "")
    if chosen not in DIFFS:
        return render_fragment(request, "step/_block_page.html", location, {"shown": page})
    request.COOKIES["diff"] = chosen
    shown = {"shown": page, "is_restyled": True}
    response = render_fragment(request, "step/_block_page.html", location, shown)
    response.set_cookie("diff", chosen, max_age=YEAR, samesite="Lax", httponly=True)
    return response


@signed_in
@require_safe
def whole_text(request: PersonRequest, session_id: UUID, number: int, key: str) -> HttpResponse:
    """A text of a step on a page of its own, in parts, with a search in it.

    ``q`` is the text to find, ``from`` the number of matching lines to skip, ``start`` the first character.
    """
    location = find_location(request, session_id, number)
    block = _find_block(location, key)
    if block.language == IMAGE:
        raise NotFound(f"Step {location.step} has no text {key}.")
    query = request.GET
    search_text = wanted_text(query["q"]) if query.get("q", "").strip() else ""
    first = max(0, read_number(query, "from") or 0)
    shown = WholeText(block.text, search_text, read_number(query, "start"), first)
    address = f"?{urlencode({'q': search_text})}{location.as_of_parameter}"
    return render_fragment(request, "step/_whole_text.html", location, {"shown": shown, "address": address})


@signed_in
@require_safe
def image(request: PersonRequest, session_id: UUID, number: int, key: str) -> HttpResponse:
    """An image of a step."""
    location = find_location(request, session_id, number)
    block = find_image(location.history, location.step, key)
    data = image_bytes(block.text) if block and block.language == IMAGE else None
    if data is None:
        raise NotFound(f"Step {location.step} has no image {key}.")
    response = HttpResponse(data[1], content_type=data[0])
    response["Content-Disposition"] = "inline"
    response["Cache-Control"] = f"private, max-age={CACHED}"
    return response


def _find_block(location: Location, key: str) -> Block:
    if not location.step:
        inputs = load_inputs(location.history)
        blocks = {block.key: block for view in inputs for block in view.blocks}
    elif key.startswith("raw-"):
        blocks = {block.key: block for block in raw_blocks(location.history, location.step)}
    else:
        call = _CALL_KEY.match(key)
        blocks = load_step(location.history, location.step, int(call[1]) if call else 0).blocks
    if key not in blocks:
        raise NotFound(f"Step {location.step} has no part {key}.")
    return blocks[key]
