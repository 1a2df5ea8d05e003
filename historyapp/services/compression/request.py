"""Resolves a requested run before it starts: its strategy, its steps, its model and its maximum cost."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from historyapp.core.errors import Conflict, Invalid
from historyapp.core.settings import SessionSettings, load_settings
from historyapp.core.strategies import STRATEGIES, strategy_named
from historyapp.core.strategies.base import Strategy
from historyapp.core.tokens import count_tokens
from historyapp.core.usage import MICRO, Usage
from historyapp.llm.router import LOCAL, PROVIDERS, ProviderRouter
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.prices import price_list
from historyapp.services.spending import check_model
from historyapp.wire.problems import ModelNotAllowed

DEFAULT_MODEL, FALLBACK_MODEL = SessionSettings().llm_name, "claude-haiku-4-5"
"""The default summary model, and its replacement if only Anthropic has a key."""
PAID_MODELS_OFF = (
    "Automatic compressions use the local summariser: this project has not turned on paid models for them. "
    "An owner can do so in the project's settings."
)


@dataclass(frozen=True, slots=True)
class ChosenModel:
    name: str
    """``provider:model``, ``local``, or empty for strategies that use no model."""
    note: str = ""
    """Why it is not the default model."""

    @property
    def calls_provider(self) -> bool:
        return self.name not in ("", LOCAL)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A request for a run. If a field is None, the session's setting applies."""

    strategy: str | None = None
    from_step: int | None = None
    """Negative numbers count from the end. If both are None: all finished steps except the newest."""
    to_step: int | None = None
    model: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """The strategy's options."""
    again: bool = False
    """Whether to summarise steps again that have a summary of this strategy."""


@dataclass(frozen=True, slots=True)
class AcceptedRun:
    """A run whose estimate somebody has accepted, before it starts."""

    strategy: str
    model: str
    last_step: int
    cost: int | None
    """In millionths of a dollar; None if the model's price was unknown and that was accepted."""
    first_step: int = 1


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A request with all defaults filled in."""

    strategy: Strategy
    options: dict[str, Any]
    model: ChosenModel
    settings: SessionSettings
    steps: range
    head: int

    @property
    def calls_provider(self) -> bool:
        return self.model.calls_provider


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """The maximum work and cost of a run. Steps that already have a summary are included."""

    strategy: str
    model: str
    note: str
    first_step: int
    last_step: int
    summaries: int
    calls: int
    """The number of model calls. Long steps may need more."""
    tokens_before: int
    tokens_in: int
    tokens_out: int
    cost: int | None
    """In millionths of a dollar; None if the model's price is not known."""
    prices_as_of: str
    """The date of the price list behind ``cost``."""

    @property
    def steps(self) -> int:
        return self.last_step - self.first_step + 1


def resolve_request(session: Session, request: RunRequest, as_of: int | None = None) -> ResolvedRequest:
    """The request with defaults from the session's settings. Takes constant time.

    Raises:
        Invalid: for an unknown strategy, option or model, or steps that are not in the live history.
    """
    settings = load_settings(session.settings)
    strategy = strategy_named(request.strategy or settings.compression_strategy)
    try:
        options = strategy.options.model_validate(dict(request.options)).model_dump(exclude_defaults=True)
    except ValidationError as error:
        first_error = error.errors(include_url=False, include_input=False)[0]
        option = ".".join(map(str, ("options", *first_error["loc"])))
        raise Invalid(
            f"{option} of the strategy {strategy.name}: {first_error['msg']}. "
            f"Its options: {', '.join(strategy.options.model_fields) or 'none'}."
        ) from error
    history = History(session, as_of)
    newest = history.tail.step
    finished = history.steps - (newest is not None and newest.status == "in_flight")
    if request.from_step is None and request.to_step is None:
        steps = range(1, max(0, min(finished, history.steps - settings.detailed_steps)) + 1)
    else:
        bounds = history.slice(request.from_step, request.to_step)
        steps = range(bounds.start, min(bounds.stop, finished + 1))
    model = choose_model(strategy, request.model, settings, session.project)
    return ResolvedRequest(strategy, options, model, settings, steps, session.head)


def resolve_accepted(session: Session, request: RunRequest, accepted: AcceptedRun) -> ResolvedRequest:
    """The run that was accepted, without the steps that the live history no longer has.

    The session may have changed since: other settings do not change the strategy or the model, and new steps
    are not compressed. If the request names steps, they are those that were accepted: a negative number would
    now stand for another step.

    Args:
        request: as when it was accepted.

    Raises:
        Invalid: as :func:`resolve_request`, or when the accepted model has no key any more.
        Conflict: when it would cost more than was accepted.
    """
    if request.from_step is not None or request.to_step is not None:
        request = replace(request, from_step=1, to_step=None)
    resolved = resolve_request(session, replace(request, strategy=accepted.strategy))
    if resolved.model.name != accepted.model:
        model = choose_model(resolved.strategy, accepted.model, resolved.settings, session.project)
        resolved = replace(resolved, model=model)
    first, last = max(resolved.steps.start, accepted.first_step), accepted.last_step
    resolved = replace(resolved, steps=range(first, min(resolved.steps.stop, last + 1)))
    if accepted.cost is None or not resolved.steps:
        return resolved
    cost = estimate_resolved(session, resolved).cost
    if cost is None or cost > accepted.cost:
        new_cost = "an unknown amount" if cost is None else f"up to {cost / MICRO:.6g} US dollars"
        raise Conflict(
            f"The steps, the settings or the prices have changed. The compression would now cost {new_cost}, "
            f"but only {accepted.cost / MICRO:.6g} US dollars were accepted. Request it again."
        )
    return resolved


def estimate(session: Session, request: RunRequest, as_of: int | None = None) -> RunEstimate:
    """The maximum cost of the run. ``as_of``: the cost at that position.

    Raises:
        Invalid: as :func:`resolve_request`.
        ModelNotAllowed: when the project does not allow the model.
    """
    resolved = resolve_request(session, request, as_of)
    check_model(session.project, resolved.model.name)
    return estimate_resolved(session, resolved, as_of)


def estimate_resolved(session: Session, resolved: ResolvedRequest, as_of: int | None = None) -> RunEstimate:
    """As :func:`estimate`, without checking the model."""
    steps, strategy, model = resolved.steps, resolved.strategy, resolved.model
    tokens = 0
    if steps:  # from running totals, so the number of steps does not matter
        history = History(session, as_of)
        first, last = history.row(steps.start), history.row(steps.stop - 1)
        tokens = last.total_tokens - first.total_tokens + first.tokens
    batch_size = resolved.settings.compression_batch_size if strategy.covers == "batch" else 1
    summaries = -(-len(steps) // batch_size)
    calls = summaries if resolved.calls_provider else 0
    instruction = strategy.instruction_tokens
    if strategy.takes_instruction:
        instruction += count_tokens(instruction_of(resolved.settings, session.project))
    tokens_in = tokens + calls * instruction if resolved.calls_provider else 0
    tokens_out = calls * strategy.answer_tokens
    prices = price_list()
    price = prices.of(model.name)
    cost: int | None = 0
    if resolved.calls_provider:
        cost = price.cost(Usage(input=tokens_in, output=tokens_out)) if price else None
    return RunEstimate(
        strategy=strategy.name,
        model=model.name,
        note=model.note,
        first_step=steps.start,
        last_step=steps.stop - 1,
        summaries=summaries,
        calls=calls,
        tokens_before=tokens,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost=cost,
        prices_as_of=prices.as_of,
    )


def choose_model(
    strategy: Strategy, requested: str | None, settings: SessionSettings, project: Project | None = None
) -> ChosenModel:
    """The model of a run: the requested one, otherwise the one in the session's settings.

    If the provider of the session's model has no key, another model is used and the note says so:
    ``FALLBACK_MODEL`` in place of the default model, if its provider has a key and the project allows it;
    otherwise the local summariser.

    Raises:
        Invalid: when the requested model is unknown or has no key.
    """
    if not strategy.uses_model:
        if requested:
            raise Invalid(f"The strategy {strategy.name} uses no model. Leave `model` out.")
        return ChosenModel("")
    if requested:
        return ChosenModel(LOCAL if requested == LOCAL else _with_key(requested))
    if settings.llm_name == LOCAL:
        return ChosenModel(LOCAL)
    try:
        return ChosenModel(_with_key(settings.llm_name))
    except Invalid as error:
        if settings.llm_name == DEFAULT_MODEL:
            with suppress(Invalid):
                if project is not None:
                    check_model(project, FALLBACK_MODEL)
                fallback = _with_key(FALLBACK_MODEL)
                return ChosenModel(fallback, f"{error.detail} {FALLBACK_MODEL} is used instead.")
        note = (
            f"The session's model for summaries is {settings.llm_name}. {error.detail} "
            "The local summariser is used instead."
        )
    titles: dict[str, None] = {}  # both providers of OpenAI have the same title
    for provider in PROVIDERS.values():
        with suppress(Invalid):
            provider.sdk.access()
            titles[provider.title] = None
    keys = (f"{title} has an API key on this server: choose one of its models to use it." for title in titles)
    return ChosenModel(LOCAL, " ".join((note, *keys)))


def _with_key(model: str) -> str:
    """``provider:model``. Raises ``Invalid``, which names the variable, if the provider has no key."""
    route = ProviderRouter().route(model)
    route.provider.sdk.access()  # without the SDK, because a transaction may be open
    return f"{route.provider.name}:{route.model}"


def instruction_of(settings: SessionSettings, project: Project) -> str:
    """The summary instruction of a session or its project; empty: the strategy's own."""
    return settings.summary_instruction or project.summary_instruction


def choose_automatic_model(chosen: ChosenModel, project: Project) -> ChosenModel:
    """The model of an automatic run: ``local``, unless the project allows paid models for such runs."""
    if chosen.calls_provider and not project.paid_automatic_compression:
        return ChosenModel(LOCAL, PAID_MODELS_OFF)
    try:
        check_model(project, chosen.name)
    except ModelNotAllowed as error:
        return ChosenModel(LOCAL, f"{error.detail} The local summariser is used instead.")
    return chosen


def automatic_model(settings: SessionSettings, project: Project) -> str:
    """The model of a provider that automatic runs of a session call. Empty: they cost nothing."""
    strategy = STRATEGIES.get(settings.compression_strategy)
    if strategy is None:
        return ""
    chosen = choose_automatic_model(choose_model(strategy, None, settings, project), project)
    return chosen.name if chosen.calls_provider else ""


def model_note(settings: SessionSettings, project: Project) -> str:
    """Why a session's runs do not use the model of its settings, or empty."""
    strategy = STRATEGIES.get(settings.compression_strategy)
    if strategy is None:
        return ""
    chosen = choose_model(strategy, None, settings, project)
    if settings.compress_automatically:
        return choose_automatic_model(chosen, project).note
    try:
        check_model(project, chosen.name)
    except ModelNotAllowed as error:
        return error.detail
    return chosen.note
