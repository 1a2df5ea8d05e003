"""The context panel: what the model is sent after a step, under any terms."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, signed_in
from dashboard.place import Place, page_context, place_of, whole_number
from dashboard.rendering.blocks import Block
from dashboard.rendering.context import Changes, Contents, changes, composition, request_json, request_parts
from historyapp.core.errors import Invalid, NotFound
from historyapp.core.formats import FORMATS
from historyapp.core.policies import POLICIES
from historyapp.core.settings import load_settings
from historyapp.core.text import clean
from historyapp.services.contexts import BuiltContext, RequestedContext
from historyapp.services.prices import price_list
from historyapp.services.snapshots import serve

MOST = 2_000_000
"""Tokens of the largest budget that the panel works with: twice what models take."""
UNLIMITED = 200_000
"""Tokens that it works with where the session has no limit and none is asked for: more takes seconds."""
VIEWS = {"contents": "Contents", "diff": "Diff", "messages": "Messages", "json": "JSON"}


@dataclass(frozen=True)
class Look:
    """What a reader asks to see of a context. Empty fields are as the session has them."""

    place: Place
    policy: str
    format: str
    model: str
    max_tokens: int | None
    view: str

    @property
    def default_budget(self) -> int | None:
        """The budget of the session's settings, in tokens; None: no limit."""
        session = self.place.session
        return load_settings(session.settings).budget(self.model or session.model)

    @property
    def budget(self) -> int:
        """The budget in tokens."""
        own = self.default_budget
        return min(UNLIMITED if own is None else own, MOST) if self.max_tokens is None else self.max_tokens

    @property
    def query(self) -> str:
        """The address of this look, without a question mark."""
        query = QueryDict(mutable=True)
        query.update({name: str(getattr(self, name) or "") for name in ("policy", "format", "model")})
        query.update({"max_tokens": "" if self.max_tokens is None else str(self.max_tokens)})
        return f"{self.place.query}&{query.urlencode()}"

    def built(self, position: int | None) -> BuiltContext:
        """The context as of a position.

        Raises:
            Invalid: as :func:`historyapp.services.contexts.build`.
        """
        wish = RequestedContext(
            self.policy or None, self.format or None, self.model or None, self.budget, as_of=position
        )
        return serve(self.place.session, wish).built


def form_context(place: Place, look: Look | None = None) -> dict[str, Any]:
    """What the panel's form needs."""
    return {
        "look": look or look_at(place, QueryDict()),
        "settings": load_settings(place.session.settings),
        "policies": POLICIES,
        "request_formats": FORMATS,
        "views": VIEWS,
        "most": MOST,
    }


def look_at(place: Place, query: QueryDict) -> Look:
    """What an address asks for.

    Raises:
        Invalid: for a budget that is none, and a view that there is not.
    """
    max_tokens = whole_number(query, "max_tokens")
    if max_tokens is not None and not 0 <= max_tokens <= MOST:
        raise Invalid(f"max_tokens must be from 0 to {MOST:,}.")
    view = query.get("view") or "contents"
    if view not in VIEWS:
        raise Invalid(f"There is no view {view[:50]!r}. Use one of {', '.join(VIEWS)}.")
    policy, format, model = (clean(query.get(name, "").strip()) for name in ("policy", "format", "model"))
    return Look(place, policy[:50], format[:50], model[:200], max_tokens, view)


def moments(place: Place) -> tuple[int, int | None]:
    """The positions at which the step and the one after it began to be thought of; None: now."""
    rows = place.history.rows(place.step, place.step + 1) if place.step else []
    before = rows[0].first_position - 1 if rows else 0
    return before, rows[1].first_position - 1 if len(rows) > 1 else place.as_of


@signed_in
@require_safe
def context(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The context after a step. Without htmx: on a page of its own, with the form."""
    place = place_of(request, session_id)
    look = look_at(place, request.GET)
    try:
        shown = _shown(look)
    except Invalid as error:
        smallest = error.fields.get("smallest", MOST + 1)
        shown = {"refusal": error, "smallest": smallest if smallest <= MOST else None}
    shown |= {"place": place, "look": look}
    if request.htmx:
        return render(request, "_context.html", shown)
    status = 422 if "refusal" in shown else 200
    return _page(request, "_context_page.html", form_context(place, look) | shown, status)


def _shown(look: Look) -> dict[str, Any]:
    before, after = moments(look.place)
    built = look.built(after)
    shown: dict[str, Any] = {"built": built, "composition": composition(built.manifest, look.budget)}
    match look.view:
        case "diff":
            shown["changes"] = _changes(look, before, built)
        case "messages":
            shown["parts"] = request_parts(built.request)
        case "json":
            shown["block"] = request_json(built.request)
        case _:
            shown["contents"] = Contents(built.manifest)
    return shown


def _changes(look: Look, before: int, after: BuiltContext) -> Changes | None:
    """None where the earlier context does not fit the budget."""
    try:
        earlier = look.built(before)
    except Invalid:
        return None
    return changes(earlier, after, price_list())


@signed_in
@require_safe
def context_block(request: PersonRequest, session_id: UUID, key: str) -> HttpResponse:
    """More of one of a request's texts, from character ``start``."""
    place = place_of(request, session_id)
    look = look_at(place, request.GET)
    page = _block(look, key).page(whole_number(request.GET, "start") or 0)
    shown = {"place": place, "look": look, "shown": page}
    template = "_context_block_page.html"
    return render(request, template, shown) if request.htmx else _page(request, template, shown)


def _block(look: Look, key: str) -> Block:
    request = look.built(moments(look.place)[1]).request
    if key == "json":
        return request_json(request)
    found = next((part.block for part in request_parts(request) if part.block.key == key), None)
    if found is None:
        raise NotFound(f"The request has no part {key[:50]}.")
    return found


def _page(request: PersonRequest, part: str, shown: dict[str, Any], status: int = 200) -> HttpResponse:
    place: Place = shown["place"]
    return render(request, "part.html", page_context(request, place) | shown | {"part": part}, status=status)
