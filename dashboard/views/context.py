"""The context panel: the recorded request of a step, or a What if context after it."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse, QueryDict
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, signed_in
from dashboard.location import Location, find_location, read_number, render_fragment
from dashboard.rendering.context import (
    Bill,
    changes,
    cheaper_full_history,
    composition,
    list_contents,
    request_json,
    request_parts,
)
from dashboard.rendering.what_ifs import saved_what_ifs
from dashboard.views.recorded import show_recorded
from historyapp.core.errors import Invalid, NotFound
from historyapp.core.formats import FORMATS
from historyapp.core.policies import POLICIES
from historyapp.core.settings import load_settings, window_of
from historyapp.core.text import clean
from historyapp.core.usage import usage_of
from historyapp.models.what_ifs import MAX_TOKENS
from historyapp.services.contexts import BuiltContext, RequestedContext
from historyapp.services.figures.largest_input import largest_input
from historyapp.services.figures.largest_request import largest_request
from historyapp.services.prices import price_list
from historyapp.services.recorded.notes import unrecorded_note
from historyapp.services.recorded.requests import billed_cost, model_of, output_of_step, recorded_request
from historyapp.services.snapshots import serve_context
from historyapp.services.what_ifs import WhatIfOptions

UNLIMITED = 200_000
"""The budget in tokens if neither the session nor the form sets one. A larger context takes seconds."""


class Mode(NamedTuple):
    """What the panel shows, and the moment that it shows."""

    title: str
    moment: str


MODES = {
    "recorded": Mode("Recorded", "before the step"),
    "what_if": Mode("What if", "after the step"),
}
_WHAT_IF_PARAMETERS = ("policy", "max_tokens", "format", "model", "view")
"""An address with one of these parameters shows What if, unless it names a mode."""
VIEWS = {"contents": "Contents", "diff": "Diff", "messages": "Messages", "json": "JSON"}


@dataclass(frozen=True)
class ContextForm:
    """The panel's form as filled in. Empty fields mean the session's settings."""

    location: Location
    mode: str
    policy: str
    format: str
    model: str
    max_tokens: int | None
    view: str
    default_budget: int | None
    """The budget of the session's settings, in tokens; None: no limit."""
    budget: int
    """The budget in tokens."""
    is_chosen: bool
    """Whether the budget was chosen, in this form or in the session's settings."""
    query: str
    """The form as an address has it, without a question mark."""

    @property
    def address(self) -> str:
        """The session's page with this form."""
        return f"{self.location.url}?{self.query}"

    @property
    def options(self) -> WhatIfOptions:
        """The chosen options, in the form that can be saved."""
        return WhatIfOptions(self.policy, self.max_tokens, self.format, self.model)

    def of_step(self) -> "ContextForm":
        """The form where empty fields mean the step: its model, and that model's window."""
        location = self.location
        if not location.step:
            return self
        output = output_of_step(location.history, location.step)
        model_of_step = model_of(location.history, output)
        model = self.model or model_of_step
        if self.is_chosen or self.default_budget is None:
            return replace(self, model=model)
        billed = 0
        if model == model_of_step:
            largest = largest_input(location.history)
            billed = largest_request(location.history, model, max(largest, usage_of(output.metadata).input))
        return replace(self, model=model, budget=min(max(window_of(model), billed), MAX_TOKENS))

    def build(self, position: int | None) -> BuiltContext:
        """The context as of a position.

        Raises:
            Invalid: as :func:`historyapp.services.contexts.build`.
        """
        options = RequestedContext(
            self.policy or None, self.format or None, self.model or None, self.budget, as_of=position
        )
        return serve_context(self.location.session, options).built

    def positions(self) -> tuple[int, int | None]:
        """The positions of the contexts before and after the step; None: now."""
        location = self.location
        rows = location.history.rows(location.step, location.step + 1) if location.step else []
        before = rows[0].first_position - 1 if rows else 0
        return before, rows[1].first_position - 1 if len(rows) > 1 else location.as_of


def form_context(location: Location, form: ContextForm | None = None) -> dict[str, Any]:
    """The context of the panel's form."""
    return {
        "options": form or read_context_form(location, QueryDict()),
        "settings": load_settings(location.session.settings),
        "policies": POLICIES,
        "request_formats": FORMATS,
        "views": VIEWS,
        "modes": MODES,
        "max_budget": MAX_TOKENS,
    }


def read_context_form(location: Location, query: QueryDict) -> ContextForm:
    """The form in an address.

    Raises:
        Invalid: for a budget out of range and an unknown view.
    """
    max_tokens = read_number(query, "max_tokens")
    if max_tokens is not None and not 0 <= max_tokens <= MAX_TOKENS:
        raise Invalid(f"max_tokens must be from 0 to {MAX_TOKENS:,}.")
    view = query.get("view") or "contents"
    if view not in VIEWS:
        raise Invalid(f"There is no view {view[:50]!r}. Use one of {', '.join(VIEWS)}.")
    mode = query.get("mode") or (
        "what_if" if any(query.get(name) for name in _WHAT_IF_PARAMETERS) else "recorded"
    )
    if mode not in MODES:
        raise Invalid(f"There is no mode {mode[:50]!r}. Use one of {', '.join(MODES)}.")
    lengths = {"policy": 50, "format": 50, "model": 200}
    policy, format, model = (clean(query.get(name, "").strip())[:length] for name, length in lengths.items())
    session = location.session
    settings = load_settings(session.settings)
    default = settings.budget(model or session.model)
    budget = min(UNLIMITED if default is None else default, MAX_TOKENS) if max_tokens is None else max_tokens
    is_chosen = max_tokens is not None or settings.max_tokens not in ("window", None)
    fields = {"mode": mode, "policy": policy, "format": format, "model": model}
    fields |= {"max_tokens": "" if max_tokens is None else str(max_tokens)}
    form_query = f"{location.query}&{urlencode(fields)}"
    return ContextForm(
        location, mode, policy, format, model, max_tokens, view, default, budget, is_chosen, form_query
    )


@signed_in
@require_safe
def context(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The context after a step. Without htmx: on a page of its own, with the form."""
    location = find_location(request, session_id)
    form = read_context_form(location, request.GET)
    status = 200
    try:
        shown = show_recorded(location) if form.mode == "recorded" else _context(form.of_step())
    except Invalid as error:
        smallest = error.fields.get("smallest", MAX_TOKENS + 1)
        shown = {"refusal": error, "smallest": smallest if smallest <= MAX_TOKENS else None}
        status = 422
    if form.mode == "what_if":
        shown["saved"] = saved_what_ifs(location, form.options, load_settings(location.session.settings))
    if request.htmx:
        return render_fragment(request, "context/_context.html", location, {"options": form, **shown})
    shown |= form_context(location, form)
    return render_fragment(request, "context/_page.html", location, shown, status)


def _context(form: ContextForm) -> dict[str, Any]:
    before, after = form.positions()
    built = form.build(after)
    shown: dict[str, Any] = {
        "built": built,
        "composition": composition(built.manifest, form.budget),
        "cheaper": cheaper_full_history(built),
        "unrecorded": _unrecorded(form.location),
    }
    match form.view:
        case "diff":
            bill = _bill(form.location) if form.location.step else None
            try:
                shown["changes"] = changes(form.build(before), built, price_list(), bill)
            except Invalid:  # the context before the step does not fit the budget
                shown["changes"] = None
        case "messages":
            shown["parts"], shown["unlisted"] = request_parts(built)
        case "json":
            shown["request_json"] = request_json(built.request)
        case _:
            shown["contents"] = list_contents(built.manifest)
    return shown


def _unrecorded(location: Location) -> str:
    """What the agent adds to a context, by the recorded request of the step before it."""
    return unrecorded_note(recorded_request(location.history, location.step)) if location.step else ""


def _bill(location: Location) -> Bill:
    """The bill of the next step, to which the context leads; otherwise of this one."""
    history, step = location.history, location.step
    is_next = len(history.rows(step, step + 1)) > 1
    output = output_of_step(history, step + is_next)
    cost = billed_cost(output, model_of(history, output))
    return Bill(step + is_next, is_next, usage_of(output.metadata), cost)


@signed_in
@require_safe
def context_block(request: PersonRequest, session_id: UUID, key: str) -> HttpResponse:
    """The next part of one of a request's texts, from character ``start``."""
    location = find_location(request, session_id)
    form = read_context_form(location, request.GET)
    form = form.of_step()
    built = form.build(form.positions()[1])
    blocks = {part.block.key: part.block for part in request_parts(built)[0]}
    if key == "json":
        blocks = {key: request_json(built.request)}
    if key not in blocks:
        raise NotFound(f"The request has no part {key[:50]}.")
    page = blocks[key].page(read_number(request.GET, "start") or 0)
    return render_fragment(request, "context/_block_page.html", location, {"options": form, "shown": page})
