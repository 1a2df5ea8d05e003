"""Builds the context for an agent's next model call."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from historyapp.core.budget import RequestMeter, meter_for
from historyapp.core.context import Context
from historyapp.core.conversation import InputMessage
from historyapp.core.errors import Invalid
from historyapp.core.formats import format_named, render_bytes
from historyapp.core.formats.prefixes import prefix_sha256
from historyapp.core.full_history import compare_with_full_history
from historyapp.core.manifest import Manifest, Segment
from historyapp.core.policies import policy_named
from historyapp.core.policies.base import OutlinedPast, RequestExtras
from historyapp.core.projection import Tail
from historyapp.core.settings import SessionSettings, load_settings
from historyapp.llm.router import ProviderRouter
from historyapp.models import Session, TokenCorrection
from historyapp.services.corrections import learned_factor
from historyapp.services.prices import price_list
from historyapp.services.recorded.windows import newest_window

DEFAULT_FORMAT = "openai_chat"

Request = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RequestedContext:
    """A requested context. If the policy, format or model is None, the session's setting applies."""

    policy: str | None = None
    format: str | None = None
    model: str | None = None
    max_tokens: int | Literal["session"] | None = "session"
    """None: no limit. ``"session"``: the budget of the session's settings."""
    tools: Sequence[Mapping[str, Any]] = ()
    live_screen: str = ""
    as_of: int | None = None


@dataclass(frozen=True, slots=True)
class ContextSpec:
    """All inputs of a context other than the log. The same log and spec give the same bytes."""

    policy: str
    format: str
    model: str
    max_tokens: int | None
    settings: SessionSettings
    factor: float
    tools: Sequence[Mapping[str, Any]]
    screen_tokens: int
    """The part of the budget that the live screen takes, in tokens."""
    keeps_all_reasoning: bool = False
    """True for snapshots from before 2026-11-26, which kept reasoning whatever came before it."""
    fills_newest: bool = True
    """False for snapshots from before 2026-11-29, whose newest step stayed clipped although room was left."""
    reads_few_names: bool = False
    """True for snapshots from before 2026-11-30, which read at most 200 further names of each step."""
    scores_as_earlier: bool = False
    """True for snapshots until 2026-11-30, whose lines and names had other scores."""
    notes_as_earlier: bool = False
    """True for snapshots until 2026-11-30, whose notes had only lines of excerpts."""

    @property
    def meter(self) -> RequestMeter:
        return meter_for(self.format, self.model, self.factor)


@dataclass(frozen=True, slots=True)
class BuiltContext:
    """A context, ready to be sent."""

    spec: ContextSpec
    manifest: Manifest
    request: Request
    tokens: int
    """Tokens of the whole request, as Playhead counts them."""
    sha256: str
    """SHA-256 of the request's canonical bytes, without the live screen."""
    context: Context
    """Without the live screen."""

    @property
    def prefix_sha256(self) -> str:
        """As ``sha256``, but of the request without cache breakpoints."""
        format = format_named(self.spec.format)
        if not format.reasoning_kinds:  # no other format has breakpoints
            return self.sha256
        return prefix_sha256(format, self.context, self.spec.tools)


def resolve_options(
    session: Session, requested: RequestedContext, correction: TokenCorrection | None = None
) -> ContextSpec:
    """The spec of a requested context.

    Args:
        correction: corrects our count of the model's tokens.

    Raises:
        Invalid: for a policy or format that does not exist; the error lists those that do.
    """
    settings = load_settings(session.settings)
    model = model_of(session, requested)
    format = requested.format or settings.format
    if not format:
        try:
            format = ProviderRouter().route(model).provider.format
        except Invalid:
            format = DEFAULT_FORMAT  # many servers accept this format
    meter = meter_for(format, model, learned_factor(correction))
    return ContextSpec(
        policy=policy_named(requested.policy or settings.policy).name,
        format=format,
        model=model,
        max_tokens=_budget(session, requested, settings, model),
        settings=settings,
        factor=meter.factor,
        tools=requested.tools,
        screen_tokens=meter.message_tokens(requested.live_screen),
    )


def model_of(session: Session, requested: RequestedContext) -> str:
    """The model that a context is for; may be empty."""
    return session.model if requested.model is None else requested.model


def _budget(
    session: Session, requested: RequestedContext, settings: SessionSettings, model: str
) -> int | None:
    """The budget in tokens; None: no limit. A window that the session's history records precedes the usual
    one."""
    if requested.max_tokens != "session":
        return requested.max_tokens
    if settings.max_tokens != "window" or not model:
        return settings.budget(model)
    return settings.budget(model, newest_window(session.lineage(requested.as_of), model, session.model))


class CountedPast(OutlinedPast, Protocol):
    """A past whose token totals are known without reading its entries."""

    @property
    def tail(self) -> Tail:
        """The tail with the running totals."""
        ...


def build(past: CountedPast, spec: ContextSpec, live_screen: str = "") -> BuiltContext:
    """The context of a session for a spec.

    Raises:
        Invalid: when the pinned part alone exceeds the budget (the error's ``smallest`` is a budget that
            works), or for an invalid tool definition.
    """
    context = _choose(past, spec)
    price = price_list().of(spec.model)
    if price is not None:
        compared = compare_with_full_history(context, past.tail.totals.tokens, past.steps, price)
        manifest = context.manifest.model_copy(update={"full_history": compared})
        context = replace(context, manifest=manifest)
    stored_context = context
    format = format_named(spec.format)
    stored_request = request = format.request(context, spec.tools)
    if live_screen.strip():
        context = _with_screen(context, spec, live_screen)
        request = format.request(context, spec.tools)
    tokens, sha256 = spec.meter.request_tokens(request), digest(stored_request)
    return BuiltContext(spec, context.manifest, request, tokens, sha256, stored_context)


def digest(request: Request) -> str:
    """SHA-256 of a request's canonical bytes."""
    return hashlib.sha256(render_bytes(request)).hexdigest()


def _choose(past: OutlinedPast, spec: ContextSpec) -> Context:
    """The context without the live screen. The screen is not stored, so it only reduces the budget."""
    budget = None if spec.max_tokens is None else max(0, spec.max_tokens - spec.screen_tokens)
    settings = spec.settings.model_copy(update={"max_tokens": budget})
    extras = RequestExtras(
        tools=spec.tools,
        model=spec.model,
        keeps_all_reasoning=spec.keeps_all_reasoning,
        fills_newest=spec.fills_newest,
        reads_few_names=spec.reads_few_names,
        scores_as_earlier=spec.scores_as_earlier,
        notes_as_earlier=spec.notes_as_earlier,
    )
    try:
        return policy_named(spec.policy).choose(past, settings, spec.meter, extras)
    except Invalid as error:
        if not spec.screen_tokens or "smallest" not in error.fields:
            raise
        smallest = error.fields["smallest"] + spec.screen_tokens
        raise Invalid(
            f"max_tokens is {spec.max_tokens}, which is too small for this session and its live screen of "
            f"{spec.screen_tokens} tokens. Use at least {smallest}.",
            smallest=smallest,
        ) from error


def _with_screen(context: Context, spec: ContextSpec, live_screen: str) -> Context:
    screen = spec.meter.write(InputMessage(0, live_screen, "live_screen"))
    context = replace(context, live_screen=screen)
    segments = list(context.manifest.segments)
    if segments and segments[-1].source == "overhead":  # computed again with the screen
        segments.pop()
    segments.append(Segment(source="live_screen", tokens=spec.screen_tokens))
    if overhead := spec.meter.added_tokens(context):
        segments.append(Segment(source="overhead", tokens=overhead))
    tokens = sum(segment.tokens for segment in segments)
    changed = {"segments": segments, "tokens": tokens, "max_tokens": spec.max_tokens}
    return replace(context, manifest=context.manifest.model_copy(update=changed))
