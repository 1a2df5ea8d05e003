"""Building the context that an agent's next call needs (DESIGN 6 to 8)."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from historyapp.core.budget import RequestMeter, meter_for
from historyapp.core.context import Context
from historyapp.core.conversation import InputMessage
from historyapp.core.errors import Invalid
from historyapp.core.formats import format_named, render_bytes
from historyapp.core.manifest import Manifest, Segment
from historyapp.core.policies import policy_named
from historyapp.core.policies.base import OutlinedPast, RequestExtras
from historyapp.core.settings import SessionSettings, load_settings
from historyapp.llm.model_calls import count_tokens
from historyapp.llm.request import ModelRequest
from historyapp.llm.router import ProviderRouter
from historyapp.models import Session, TokenCorrection
from historyapp.services.corrections import learned_factor

DEFAULT_FORMAT = "openai_chat"

Request = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """What a caller asks for. What is left out comes from the session's settings and its model."""

    policy: str | None = None
    format: str | None = None
    model: str | None = None
    max_tokens: int | Literal["session"] | None = "session"
    """Null: no limit."""
    tools: Sequence[Mapping[str, Any]] = ()
    live_screen: str = ""
    as_of: int | None = None


@dataclass(frozen=True, slots=True)
class ContextSpec:
    """All that decides a context, apart from the log: the same spec gives the same bytes."""

    policy: str
    format: str
    model: str
    max_tokens: int | None
    settings: SessionSettings
    factor: float
    tools: Sequence[Mapping[str, Any]]
    screen_tokens: int
    """Of the budget, taken by a live screen."""

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
    """Of the whole request, by our own count."""
    sha256: str
    """Of the request's canonical bytes, without the live screen."""


def resolve_options(
    session: Session, options: ContextOptions, correction: TokenCorrection | None = None
) -> ContextSpec:
    """What the options mean in a session. ``correction``: what is known of the model's tokens.

    Raises:
        Invalid: for a policy or format that does not exist; it lists those that do.
    """
    settings = load_settings(session.settings)
    model = model_of(session, options)
    format = options.format or default_format(model)
    meter = meter_for(format, model, learned_factor(correction))
    return ContextSpec(
        policy=policy_named(options.policy or settings.policy).name,
        format=format,
        model=model,
        max_tokens=settings.budget(model) if options.max_tokens == "session" else options.max_tokens,
        settings=settings,
        factor=meter.factor,
        tools=options.tools,
        screen_tokens=meter.message(options.live_screen),
    )


def model_of(session: Session, options: ContextOptions) -> str:
    """The model that a context is for; may be empty."""
    return session.model if options.model is None else options.model


def default_format(model: str) -> str:
    """The format that a model's provider takes; OpenAI's, which many servers speak, where none is known."""
    try:
        return ProviderRouter().route(model).provider.format
    except Invalid:
        return DEFAULT_FORMAT


def build(past: OutlinedPast, spec: ContextSpec, live_screen: str = "") -> BuiltContext:
    """The context of a session for a spec.

    Raises:
        Invalid: when not even the pinned part fits the budget (``smallest`` is one that works), or a tool's
            definition is none.
    """
    context = _chosen(past, spec)
    format = format_named(spec.format)
    bare = format.request(context, spec.tools)
    request = bare
    if live_screen.strip():
        context = _with_screen(context, spec, live_screen)
        request = format.request(context, spec.tools)
    return BuiltContext(spec, context.manifest, request, spec.meter.total(request), digest(bare))


def model_request(built: BuiltContext, **more: Any) -> ModelRequest:
    """A call with this context, for :mod:`historyapp.llm`."""
    return ModelRequest(built.spec.model, built.request, **more)


def count_by_provider(built: BuiltContext) -> int:
    """Tokens of the request as its model's provider counts them.

    Raises:
        Invalid: when the provider is not known, takes another format, or does not count; without a key.
        ModelCallError: when it fails to.
    """
    return count_tokens(model_request(built))


def digest(request: Request) -> str:
    """SHA-256 of a request's canonical bytes."""
    return hashlib.sha256(render_bytes(request)).hexdigest()


def _chosen(past: OutlinedPast, spec: ContextSpec) -> Context:
    """Without the live screen. It is not stored, so all it may change is how much of the budget is left."""
    left = None if spec.max_tokens is None else max(0, spec.max_tokens - spec.screen_tokens)
    settings = spec.settings.model_copy(update={"max_tokens": left})
    try:
        return policy_named(spec.policy).choose(past, settings, spec.meter, RequestExtras(tools=spec.tools))
    except Invalid as error:
        if not spec.screen_tokens or "smallest" not in error.fields:
            raise
        smallest = error.fields["smallest"] + spec.screen_tokens
        raise Invalid(
            f"A budget of {spec.max_tokens} tokens is too small for this session and a live screen of "
            f"{spec.screen_tokens}. Give at least {smallest}.",
            smallest=smallest,
        ) from error


def _with_screen(context: Context, spec: ContextSpec, live_screen: str) -> Context:
    screen = spec.meter.write(InputMessage(0, live_screen, "live_screen"))
    context = replace(context, live_screen=screen)
    segments = list(context.manifest.segments)
    if segments and segments[-1].source == "overhead":  # the format's own; the screen changes it
        segments.pop()
    segments.append(Segment(source="live_screen", tokens=spec.screen_tokens))
    if overhead := spec.meter.added(context):
        segments.append(Segment(source="overhead", tokens=overhead))
    tokens = sum(segment.tokens for segment in segments)
    changed = {"segments": segments, "tokens": tokens, "max_tokens": spec.max_tokens}
    return replace(context, manifest=context.manifest.model_copy(update=changed))
