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
    count_note,
    list_contents,
    request_json,
    request_parts,
)
from dashboard.rendering.what_ifs import saved_what_ifs
from dashboard.views.recorded import show_recorded
from historyapp.core.errors import Invalid, NotFound
from historyapp.core.formats import FORMATS
from historyapp.core.policies import POLICIES
from historyapp.core.settings import known_window, load_settings, window_of
from historyapp.core.text import clean
from historyapp.core.usage import usage_of
from historyapp.models.what_ifs import MAX_TOKENS
from historyapp.services.contexts import RequestedContext
from historyapp.services.prices import price_list
from historyapp.services.recorded.notes import unrecorded_note, unrecorded_tokens
from historyapp.services.recorded.requests import (
    RecordedRequest,
    billed_cost,
    model_of,
    output_of_step,
    recorded_request,
)
from historyapp.services.snapshots import ServedContext, serve_context
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
    recorded: RecordedRequest | None = None
    """The request that led to the step; None if it has not been read."""
    window: int = 0
    """The known window from which the budget was computed; 0 if it was not."""

    @property
    def address(self) -> str:
        """The session's page with this form."""
        return f"{self.location.url}?{self.query}"

    @property
    def options(self) -> WhatIfOptions:
        """The chosen options, in the form that can be saved."""
        return WhatIfOptions(self.policy, self.max_tokens, self.format, self.model)

    def of_step(self) -> "ContextForm":
        """The form where empty fields mean the step: its model, and that model's window without the tokens
        that the agent adds itself."""
        location = self.location
        if not location.step:
            return self
        recorded = recorded_request(location.history, location.step)
        model = self.model or recorded.model
        form = replace(self, model=model, recorded=recorded)
        if self.is_chosen or self.default_budget is None:
            return form
        is_same = model == recorded.model
        window = recorded.model_window if is_same else known_window(model)
        if window is None:
            budget = max(window_of(model), recorded.largest if is_same else 0)
        else:
            budget = max(0, window - unrecorded_tokens(recorded))
        return replace(form, window=window or 0, budget=min(budget, MAX_TOKENS))

    def serve(self, position: int | None) -> ServedContext:
        """The context as of a position.

        Raises:
            Invalid: as :func:`historyapp.services.contexts.build`.
        """
        options = RequestedContext(
            self.policy or None, self.format or None, self.model or None, self.budget, as_of=position
        )
        return serve_context(self.location.session, options)

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
    served = form.serve(after)
    built = served.built
    recorded = form.recorded
    added = unrecorded_note(recorded) if recorded else ""
    shown: dict[str, Any] = {
        "built": built,
        "composition": composition(built.manifest, form.budget),
        "cheaper": cheaper_full_history(built, recorded),
        "unrecorded": added,
        "window": form.window if added else 0,
        "count_note": count_note(served),
    }
    match form.view:
        case "diff":
            bill = _bill(form.location) if form.location.step else None
            try:
                shown["changes"] = changes(form.serve(before).built, built, price_list(), bill)
            except Invalid:  # the context before the step does not fit the budget
                shown["changes"] = None
        case "messages":
            shown["parts"], shown["unlisted"] = request_parts(built)
        case "json":
            shown["request_json"] = request_json(built.request)
        case _:
            shown["contents"] = list_contents(built.manifest)
    return shown


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
    built = form.serve(form.positions()[1]).built
    blocks = {part.block.key: part.block for part in request_parts(built)[0]}
    if key == "json":
        blocks = {key: request_json(built.request)}
    if key not in blocks:
        raise NotFound(f"The request has no part {key[:50]}.")
    page = blocks[key].page(read_number(request.GET, "start") or 0)
    return render_fragment(request, "context/_block_page.html", location, {"options": form, "shown": page})
