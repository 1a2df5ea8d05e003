"""Which model a run asks, and whether it can be asked at all."""

from contextlib import suppress
from dataclasses import dataclass

from historyapp.core.errors import Invalid
from historyapp.core.settings import SessionSettings
from historyapp.core.strategies.base import Strategy
from historyapp.llm.router import LOCAL, PROVIDERS, ProviderRouter


@dataclass(frozen=True, slots=True)
class ChosenModel:
    name: str
    """``provider:model``, ``local``, or empty for strategies that ask no model."""
    note: str = ""
    """Why it is not the one that was to be expected."""


DEFAULT, OTHER = SessionSettings().llm_name, "claude-haiku-4-5"
"""The model that summarises where nobody has chosen one, and where there is only Anthropic's key."""


def choose_model(strategy: Strategy, asked: str | None, settings: SessionSettings) -> ChosenModel:
    """The model of a run: the one that was asked for, else that of the session's settings.

    Where the settings' model has no key here, another stands in, and the note says so: for the default model
    the other provider's, if that has a key, else the local summariser.

    Raises:
        Invalid: when the one that was asked for cannot be asked: unknown, or without a key.
    """
    if not strategy.asks_model:
        if asked:
            raise Invalid(f"The strategy {strategy.name} asks no model. Leave `model` out.")
        return ChosenModel("")
    if asked == LOCAL:
        return ChosenModel(LOCAL)
    if asked:
        return ChosenModel(_usable(asked))
    if settings.llm_name == LOCAL:
        return ChosenModel(LOCAL)
    try:
        return ChosenModel(_usable(settings.llm_name))
    except Invalid as error:
        if settings.llm_name == DEFAULT:
            with suppress(Invalid):
                return ChosenModel(_usable(OTHER), f"{error.detail} {OTHER} stands in.")
        note = f"The settings name {settings.llm_name}. {error.detail} The local summariser stands in."
        return ChosenModel(LOCAL, " ".join((note, *_choices())))


def _choices() -> list[str]:
    """A sentence for each provider that has a key."""
    titles: dict[str, None] = {}  # the two of OpenAI share one
    for provider in PROVIDERS.values():
        with suppress(Invalid):
            provider.sdk()
            titles[provider.title] = None
    return [f"{title} has a key here: name one of its models to ask it." for title in titles]


def _usable(model: str) -> str:
    route = ProviderRouter().route(model)
    route.provider.sdk()  # refuses without a key, naming the variable
    return f"{route.provider.name}:{route.model}"
