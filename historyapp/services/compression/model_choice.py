"""Which model a compression run uses."""

from contextlib import suppress
from dataclasses import dataclass

from historyapp.core.errors import Invalid
from historyapp.core.settings import SessionSettings
from historyapp.core.strategies import STRATEGIES
from historyapp.core.strategies.base import Strategy
from historyapp.llm.router import LOCAL, PROVIDERS, ProviderRouter
from historyapp.models import Project
from historyapp.services.spending import check_model
from historyapp.wire.problems import ModelNotAllowed

DEFAULT_MODEL, FALLBACK_MODEL = SessionSettings().llm_name, "claude-haiku-4-5"
"""The default summary model, and the one that replaces it where only Anthropic has a key."""
NOT_TURNED_ON = (
    "Automatic runs use the local summariser: this project has not turned on paid models for them. "
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


def choose_model(
    strategy: Strategy, requested: str | None, settings: SessionSettings, project: Project | None = None
) -> ChosenModel:
    """The model of a run: the requested one, else that of the session's settings.

    Where the settings' model has no key here, another replaces it, and the note says so: for the default
    model the other provider's, if that has a key and the project allows it, else the local summariser.

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
                used = _with_key(FALLBACK_MODEL)
                return ChosenModel(used, f"{error.detail} {FALLBACK_MODEL} is used instead.")
        note = f"The settings name {settings.llm_name}. {error.detail} The local summariser is used instead."
    titles: dict[str, None] = {}  # both providers of OpenAI have the same title
    for provider in PROVIDERS.values():
        with suppress(Invalid):
            provider.sdk()
            titles[provider.title] = None
    keys = (f"{title} has a key here: choose one of its models to use it." for title in titles)
    return ChosenModel(LOCAL, " ".join((note, *keys)))


def _with_key(model: str) -> str:
    """``provider:model``. Raises ``Invalid``, which names the variable, where the provider has no key."""
    route = ProviderRouter().route(model)
    route.provider.sdk()
    return f"{route.provider.name}:{route.model}"


def choose_automatic_model(chosen: ChosenModel, project: Project) -> ChosenModel:
    """The model of an automatic run: a provider's only where the project turned that on and allows it."""
    if chosen.calls_provider and not project.paid_automatic_compression:
        return ChosenModel(LOCAL, NOT_TURNED_ON)
    try:
        check_model(project, chosen.name)
    except ModelNotAllowed as error:
        return ChosenModel(LOCAL, f"{error.detail} The local summariser is used instead.")
    return chosen


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
