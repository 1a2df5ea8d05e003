"""The forms that start a compression or a comparison: their fields, and the run requests that they make."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from dashboard.location import read_number
from historyapp.core.settings import SessionSettings
from historyapp.core.strategies import STRATEGIES
from historyapp.core.strategies.base import Strategy
from historyapp.core.text import clean
from historyapp.services.compression.request import RunRequest

MAX_VALUE = 200
"""The maximum number of characters of a model's name or of an option; further ones are dropped."""


@dataclass(frozen=True, slots=True)
class OptionField:
    """The form field of one of a strategy's options."""

    name: str
    label: str
    help: str
    value: str
    default: str
    choices: tuple[str, ...]
    """The allowed values; empty for a number."""
    minimum: int | None
    maximum: int | None


@dataclass(frozen=True, slots=True)
class StrategyOption:
    """A strategy that a form offers."""

    strategy: Strategy
    is_chosen: bool
    options: list[OptionField]


@dataclass(frozen=True, slots=True)
class StrategyForm:
    """A strategy, its model and its options, as filled in. Empty texts mean the session's settings."""

    prefix: str
    """Prefix of its field names: empty, or ``a-`` and ``b-`` if two strategies are compared."""
    strategy: str
    model: str
    options: Mapping[str, str]
    """The options of all strategies, by the name of their field."""

    @property
    def choices(self) -> list[StrategyOption]:
        choices = []
        for name, strategy in STRATEGIES.items():
            fields = []
            properties: dict[str, Any] = strategy.options.model_json_schema().get("properties", {})
            for option, schema in properties.items():
                key = f"{self.prefix}{name}.{option}"
                field = OptionField(
                    name=key,
                    label=option.replace("_", " ").capitalize(),
                    help=str(schema.get("description", "")).replace("`", ""),
                    value=self.options.get(key, ""),
                    default=str(schema.get("default", "")),
                    choices=tuple(schema.get("enum", ())),
                    minimum=schema.get("minimum"),
                    maximum=schema.get("maximum"),
                )
                fields.append(field)
            choices.append(StrategyOption(strategy, name == self.strategy, fields))
        return choices

    def run_request(self, from_step: int | None, to_step: int | None, *, again: bool) -> RunRequest:
        strategy = STRATEGIES.get(self.strategy)
        names = strategy.options.model_fields if strategy else ()
        filled = {name: self.options.get(f"{self.prefix}{self.strategy}.{name}", "") for name in names}
        return RunRequest(
            strategy=self.strategy,
            from_step=from_step,
            to_step=to_step,
            model=self.model or None if strategy is None or strategy.uses_model else None,
            options={name: value for name, value in filled.items() if value},
            again=again,
        )


@dataclass(frozen=True, slots=True)
class CompressionForm:
    """A form with the values that somebody entered, which may be invalid."""

    from_step: str
    to_step: str
    again: bool
    sides: tuple[StrategyForm, ...]
    """One, or two if strategies are compared."""

    def run_requests(self) -> list[RunRequest]:
        """One request for each side.

        Raises:
            Invalid: when a step is not a whole number.
        """
        steps = QueryDict(mutable=True)
        steps.update({"The first step": self.from_step, "The last step": self.to_step})
        first, last = (read_number(steps, name) for name in steps)
        return [side.run_request(first, last, again=self.again) for side in self.sides]


def read_form(
    query: QueryDict, settings: SessionSettings, prefixes: tuple[str, ...] = ("",)
) -> CompressionForm:
    """The form in a request's body or address. By default each side has another strategy."""
    text = {name: clean(query.get(name, "")).strip()[:MAX_VALUE] for name in query}
    defaults = [settings.compression_strategy, *(n for n in STRATEGIES if n != settings.compression_strategy)]
    sides = tuple(
        StrategyForm(
            prefix,
            text.get(f"{prefix}strategy") or default,
            text.get(f"{prefix}model", ""),
            {name: value for name, value in text.items() if name.startswith(prefix) and "." in name},
        )
        for prefix, default in zip(prefixes, defaults, strict=False)
    )
    return CompressionForm(
        text.get("from_step", ""), text.get("to_step", ""), bool(query.get("again")), sides
    )
