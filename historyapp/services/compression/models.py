"""Which model a run asks, and whether it can be asked at all."""

from dataclasses import dataclass

from historyapp.core.errors import Invalid
from historyapp.core.settings import SessionSettings
from historyapp.core.strategies.base import Strategy
from historyapp.llm.router import LOCAL, ProviderRouter


@dataclass(frozen=True, slots=True)
class ChosenModel:
    name: str
    """``provider:model``, ``local``, or empty for strategies that ask no model."""
    note: str = ""
    """Why it is not the one that was to be expected."""


def choose_model(strategy: Strategy, asked: str | None, settings: SessionSettings) -> ChosenModel:
    """The model of a run: the one that was asked for, else that of the session's settings.

    Where the settings' model has no key here, the local summariser stands in, and the note says so.

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
        return ChosenModel(LOCAL, f"{error.detail} The local summariser stands in.")


def _usable(model: str) -> str:
    route = ProviderRouter().route(model)
    route.provider.sdk()  # refuses without a key, naming the variable
    return f"{route.provider.name}:{route.model}"
