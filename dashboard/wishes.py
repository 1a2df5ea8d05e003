"""What a person asks of a compression: the fields of its forms, and the wish that they come to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from dashboard.place import whole_number
from historyapp.core.settings import SessionSettings
from historyapp.core.strategies import STRATEGIES
from historyapp.core.strategies.base import Strategy
from historyapp.core.text import clean
from historyapp.services.compression.start import RunRequest

LONGEST = 200
"""Characters of a model's name or of an option that are read."""


@dataclass(frozen=True, slots=True)
class OptionField:
    """One of a strategy's options in a form."""

    name: str
    """Of the form's field."""
    label: str
    help: str
    value: str
    default: str
    choices: tuple[str, ...]
    """Empty: a number."""
    minimum: int | None
    maximum: int | None


@dataclass(frozen=True, slots=True)
class StrategyChoice:
    """A strategy that a form offers."""

    strategy: Strategy
    is_chosen: bool
    options: list[OptionField]


@dataclass(frozen=True, slots=True)
class Side:
    """A strategy with its terms, as a form has them. Empty texts are as the session's settings have it."""

    prefix: str
    """Of the names of its fields: empty, or ``a-`` and ``b-`` where two are compared."""
    strategy: str
    model: str
    options: Mapping[str, str]
    """What is filled in, by field, of all strategies."""

    @property
    def choices(self) -> list[StrategyChoice]:
        return [
            StrategyChoice(strategy, name == self.strategy, self._fields(strategy))
            for name, strategy in STRATEGIES.items()
        ]

    def _fields(self, strategy: Strategy) -> list[OptionField]:
        properties = strategy.options.model_json_schema().get("properties", {})
        return [self._field(strategy, name, schema) for name, schema in properties.items()]

    def _field(self, strategy: Strategy, name: str, schema: Mapping[str, Any]) -> OptionField:
        field = self.field(strategy.name, name)
        return OptionField(
            name=field,
            label=name.replace("_", " ").capitalize(),
            help=str(schema.get("description", "")).replace("`", ""),
            value=self.options.get(field, ""),
            default=str(schema.get("default", "")),
            choices=tuple(schema.get("enum", ())),
            minimum=schema.get("minimum"),
            maximum=schema.get("maximum"),
        )

    def field(self, strategy: str, option: str) -> str:
        """The name of an option's field."""
        return f"{self.prefix}{strategy}.{option}"

    def wish(self, steps: tuple[int | None, int | None], *, again: bool = False) -> RunRequest:
        """What the side comes to for steps ``steps[0]`` to ``steps[1]``."""
        strategy = STRATEGIES.get(self.strategy)
        names = strategy.options.model_fields if strategy else ()
        filled = {name: self.options.get(self.field(self.strategy, name), "") for name in names}
        return RunRequest(
            strategy=self.strategy,
            from_step=steps[0],
            to_step=steps[1],
            model=self.model or None if strategy is None or strategy.uses_model else None,
            options={name: value for name, value in filled.items() if value},
            again=again,
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """A form as it was filled in, right or wrong."""

    from_step: str
    to_step: str
    again: bool
    sides: tuple[Side, ...]

    @property
    def side(self) -> Side:
        """Of a form with one."""
        return self.sides[0]

    def wishes(self) -> list[RunRequest]:
        """What each side comes to.

        Raises:
            Invalid: when a step is no number.
        """
        steps = _number(self.from_step, "The first step"), _number(self.to_step, "The last step")
        return [side.wish(steps, again=self.again) for side in self.sides]


def asked_in(query: QueryDict, settings: SessionSettings, prefixes: tuple[str, ...] = ("",)) -> Asked:
    """What a form or an address asks for. Where nothing is said each side has a strategy of its own."""
    others = [settings.compression_strategy, *(n for n in STRATEGIES if n != settings.compression_strategy)]
    sides = tuple(_side(query, prefix, others[place]) for place, prefix in enumerate(prefixes))
    return Asked(_text(query, "from_step"), _text(query, "to_step"), bool(query.get("again")), sides)


def _side(query: QueryDict, prefix: str, strategy: str) -> Side:
    options = {name: _text(query, name) for name in query if name.startswith(prefix) and "." in name}
    return Side(
        prefix, _text(query, f"{prefix}strategy") or strategy, _text(query, f"{prefix}model"), options
    )


def _text(query: QueryDict, name: str) -> str:
    return clean(query.get(name, "")).strip()[:LONGEST]


def _number(text: str, name: str) -> int | None:
    query = QueryDict(mutable=True)
    query[name] = text
    return whole_number(query, name)
