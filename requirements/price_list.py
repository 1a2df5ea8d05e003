"""Writes the price list of models from the data of the package genai-prices: ``price_list.py [DAY]``.

Only the models of their makers' own APIs: the same model may cost more elsewhere. Prices are those in force
on the day (by default today, UTC); where they depend on the time of day, the highest.
"""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ClauseEquals, ClauseOr, ClauseStartsWith, MatchLogic, ModelInfo, TieredPrices

from historyapp.core.prices import without_release

LIST = Path(__file__).parents[1] / "historyapp" / "core" / "prices.json"
MAKERS = {
    "anthropic": "claude-",
    "deepseek": "deepseek-",
    "google": "gemini-",
    "mistral": "(codestral|devstral|magistral|ministral|mistral)-",
    "openai": "(chatgpt-|codex-|gpt-|o[0-9])",
    "x-ai": "grok-",
}
"""How the names of each maker's models begin. Other makers' models at Google and Mistral are not listed."""
OTHER = re.compile(
    "audio|embed|image|live|ocr|omni|realtime|robotics|search|transcribe|tts|vision"  # no agents use them
    "|[@:/-]$|-20[0-9][0-9]$"  # only the beginning of a name
    "|[:/]"  # variants, and models at another provider
)
"""Finds names that the list does not have."""
_NEWEST = re.compile("-(latest|preview)$")
KINDS = {
    "input": "input_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_hour": "cache_write_1h_mtok",
    "output": "output_mtok",
}


def price_list(day: date) -> dict[str, Any]:
    """The file's content: one entry for each model and for each other name that only this model has."""
    owned: dict[str, Any] = {}
    others: dict[str, list[Any]] = defaultdict(list)
    for maker, model in _models():
        price = _price(model, day)
        is_named = re.compile(MAKERS[maker]).match
        for name in {model.id.lower(), _NEWEST.sub("", model.id.lower())}:
            if price and is_named(name) and not OTHER.search(name):
                owned[name] = price
        for name in map(str.lower, _names(model.match)):
            if price and is_named(name) and not OTHER.search(name):
                others[name].append(price)
    alone = {name: prices[0] for name, prices in others.items() if all(each == prices[0] for each in prices)}
    listed = {**alone, **owned}
    models = {
        name: price
        for name, price in sorted(listed.items())
        if name == without_release(name) or listed.get(without_release(name)) != price
    }
    return {
        "as_of": day.isoformat(),
        "currency": "USD",
        "per_million_tokens": models,
    }


def _models() -> Iterator[tuple[str, ModelInfo]]:
    return (
        (provider.id, model)
        for provider in get_snapshot().providers
        if provider.id in MAKERS
        for model in provider.models
    )


def _names(match: MatchLogic) -> Iterator[str]:
    """The names that a model has besides its id: those in full, and beginnings that may end in a release."""
    if isinstance(match, ClauseOr):
        for part in match.or_:
            yield from _names(part)
    elif isinstance(match, ClauseEquals):
        yield match.equals
    elif isinstance(match, ClauseStartsWith):
        yield match.starts_with


def _price(model: ModelInfo, day: date) -> dict[str, Any] | None:
    """The price in the form of the list; None if it is unknown."""
    hours = [model.get_prices(datetime.combine(day, time(hour), UTC)) for hour in range(24)]
    prices = {
        kind: max((getattr(hour, name) for hour in hours), key=_base)
        for kind, name in KINDS.items()
        if getattr(hours[0], name) is not None
    }
    if not {"input", "output"} <= prices.keys():
        return None
    price: dict[str, Any] = {kind: float(_base(value)) for kind, value in prices.items()}
    if start := max((value.tiers[0].start for value in prices.values() if _has_tiers(value)), default=None):
        price["long"] = {"above": start, **{kind: _highest(value) for kind, value in prices.items()}}
    return price


def _has_tiers(value: Decimal | TieredPrices) -> bool:
    return isinstance(value, TieredPrices) and bool(value.tiers)


def _base(value: Decimal | TieredPrices) -> Decimal:
    return value.base if isinstance(value, TieredPrices) else value


def _highest(value: Decimal | TieredPrices) -> float:
    return float(max(tier.price for tier in value.tiers) if _has_tiers(value) else _base(value))


def text_of(content: dict[str, Any]) -> str:
    """The file, with one line for each model, so that a change shows which model it concerns."""
    models = content["per_million_tokens"]
    lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(price)}" for name, price in models.items())
    head = "".join(f'  "{name}": {json.dumps(content[name])},\n' for name in ("as_of", "currency"))
    return f'{{\n{head}  "per_million_tokens": {{\n{lines}\n  }}\n}}\n'


if __name__ == "__main__":
    day = date.fromisoformat(sys.argv[1]) if sys.argv[1:] else datetime.now(UTC).date()
    LIST.write_text(text_of(price_list(day)))
