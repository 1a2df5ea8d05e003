"""Prices of models, from a dated data file beside this module. An operator's own file takes precedence.

``make prices`` writes the data file from the package genai-prices, whose import takes 80 MB.

A model is looked up by its name, with or without the day of its release (``claude-sonnet-4-5-20250929``),
``latest`` or ``preview`` at its end, and with or without a known provider before it. Any other suffix or
prefix means another model: ``gpt-5.2`` and ``ft:gpt-5`` do not cost what ``gpt-5`` does. A model that is not
listed has no price: its cost is unknown, not zero.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from historyapp.core.usage import Usage


class Price(BaseModel):
    """US dollars for a million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    input: float = Field(ge=0)
    """For input that is neither read from a cache nor written to one."""
    output: float = Field(ge=0)
    cache_read: float | None = Field(default=None, ge=0)
    """Null: the price of ``input``. The same applies to ``cache_write``."""
    cache_write: float | None = Field(default=None, ge=0)
    cache_write_hour: float | None = Field(default=None, ge=0)
    """For a cache that lives for an hour. Null: the price of ``cache_write``."""
    long: "LongPrice | None" = None
    """Null: a request of any length has the same price for a token."""

    def for_request(self, tokens: int) -> "Price":
        """The price of each token of a request with this number of input tokens.

        Sums over many requests use ``self``: they do not know the length of each one.
        """
        return self.long if self.long and tokens > self.long.above else self

    def of_request(self, usage: Usage) -> int:
        """The cost of one request, in millionths of a dollar, rounded."""
        return self.for_request(usage.input).cost(usage)

    def cost(self, usage: Usage) -> int:
        """The cost of the requests that have this usage together, in millionths of a dollar, rounded."""
        return round(sum(self.costs(usage)))

    def costs(self, usage: Usage) -> "Costs":
        """What each kind of token costs, in millionths of a dollar."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        return Costs(
            uncached=usage.uncached * self.input,
            cache_write=usage.cache_write * write + usage.cache_write_hour * self.extra_for_hour,
            cache_read=usage.cache_read * read,
            output=usage.output * self.output,
        )

    @property
    def extra_for_hour(self) -> float:
        """What writing to a cache for an hour costs more than writing to one for five minutes."""
        if self.cache_write_hour is None:
            return 0.0
        return self.cache_write_hour - (self.input if self.cache_write is None else self.cache_write)


class LongPrice(Price):
    """The prices of all tokens of a request that is longer than a limit."""

    above: int = Field(gt=0)
    """Input tokens."""


class Costs(NamedTuple):
    """What each kind of token costs, in millionths of a dollar."""

    uncached: float = 0.0
    cache_write: float = 0.0
    cache_read: float = 0.0
    output: float = 0.0


MAX_DATE = 40
"""The maximum number of characters of a list's date."""
_PRICES: TypeAdapter[dict[str, Price]] = TypeAdapter(dict[str, Price])
_RELEASE = re.compile(r"[-@](latest|preview|20\d\d-?\d\d-?\d\d)$")
"""The release in a model's name: OpenAI and Anthropic put its date last, Google Cloud after an ``@``."""
_PROVIDER = re.compile(r"^(anthropic|openai|openai_responses):")
"""How a model call names its provider."""
_MAKER = re.compile(r"^(anthropic|deepseek|gemini|google|mistral|mistralai|openai|x-ai|xai)/")
"""How LiteLLM and OpenRouter name a model's maker."""


class Prices:
    """A price list and its date."""

    def __init__(self, as_of: str, models: Mapping[str, Price]) -> None:
        self.as_of = as_of
        self._models = {model.lower(): price for model, price in models.items()}

    def of(self, model: str) -> Price | None:
        """The price of a model, with or without its provider before it; None when it is not known."""
        full = model.lower()
        sent = _PROVIDER.sub("", full)
        for name in (full, sent, _MAKER.sub("", sent)):
            if price := self._models.get(name) or self._models.get(without_release(name)):
                return price
        return None


def without_release(name: str) -> str:
    """A model's name without the day of its release, ``latest`` or ``preview`` at its end."""
    return _RELEASE.sub("", name)


def is_same_model(name: str, other_name: str) -> bool:
    """Whether two names may mean the same model: with or without its provider, its maker and its release.

    An empty name may mean any model.
    """
    names = [without_release(_MAKER.sub("", _PROVIDER.sub("", each.lower()))) for each in (name, other_name)]
    return not all(names) or names[0] == names[1]


@cache
def load_prices(overrides: Path | None = None) -> Prices:
    """The price list. Prices in an operator's file replace those of the same models.

    Raises:
        ValueError: when a file is not a price list. The message names the file.
    """
    data = _read(json.loads(files("historyapp.core").joinpath("prices.json").read_text()), "prices.json")
    if overrides is None:
        return Prices(*data)
    as_of, own = _read(json.loads(overrides.read_text()), str(overrides))
    return Prices(as_of, {**data[1], **own})


def _read(data: Any, name: str) -> tuple[str, dict[str, Price]]:
    try:
        return str(data["as_of"])[:MAX_DATE], _PRICES.validate_python(data["per_million_tokens"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{name} is not a price list: {error}") from error
