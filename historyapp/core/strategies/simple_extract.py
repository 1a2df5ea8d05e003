"""Without a model: the names, lines and outcomes that later steps refer to, step by step."""

from collections.abc import Iterable, Sequence
from math import ceil

from pydantic import BaseModel, ConfigDict, Field

from historyapp.core.episodes import Episode
from historyapp.core.rendering import long_form
from historyapp.core.strategies.base import Material, Means, Strategy, Written
from historyapp.core.strategies.composing import composed
from historyapp.core.strategies.facts import extract
from historyapp.core.strategies.judged import judged_fields
from historyapp.core.strategies.said import words_of
from historyapp.core.strategies.sizes import no_larger, own_texts, saves, tokens_of
from historyapp.core.tokens import entry_text

MAX_TOKENS = 100
LEAST_TOKENS = 10
SHORTER = 0.75
"""Of the tokens of a step's long form and its review, an extract has at most so many."""


class ExtractOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    max_tokens: int = Field(MAX_TOKENS, ge=LEAST_TOKENS, le=10_000, description="Most tokens for one step.")


def write(material: Material, means: Means) -> Written:
    """Each step in at most ``max_tokens``, within the summary's length."""
    options = means.options if isinstance(means.options, ExtractOptions) else ExtractOptions()
    return composed(
        words_of(material),
        means.max_length,
        extracted(material.episodes, means, options.max_tokens),
        list(_points(material.episodes, means)),
    )


def extracted(episodes: tuple[Episode, ...], means: Means, tokens: int = MAX_TOKENS) -> str:
    """Each step within ``tokens`` and shorter than it is; several begin with their numbers.

    A step that is shorter than an extract of it stands in its own words. All together are never larger than
    the steps: steps of a few words each do without their numbers.
    """
    owns = [own_texts(episode) for episode in episodes]
    texts = [_extract(episode, own, tokens, means) for episode, own in zip(episodes, owns, strict=True)]
    if len(texts) == 1:
        return texts[0]
    numbered = zip(episodes, texts, strict=True)
    whole = "\n".join(f"Step {episode.number}: {text}" for episode, text in numbered if text)
    own = [text for own in owns for text in own]
    if saves(whole, own, means.count):
        return whole
    return no_larger("\n".join(filter(None, texts)), own, means.count)


def _extract(episode: Episode, own: Sequence[str], tokens: int, means: Means) -> str:
    text = extract(episode, _room(episode, tokens, means), means.language, means.count)
    return no_larger(text, own, means.count)


def _room(episode: Episode, tokens: int, means: Means) -> int:
    """An extract that is hardly shorter than a short step would save nothing."""
    most = ceil(tokens / SHORTER)
    whole = tokens_of([long_form(episode), *map(entry_text, episode.reviews)], most, means.count)
    return min(tokens, max(LEAST_TOKENS, round(SHORTER * whole)))


def _points(episodes: tuple[Episode, ...], means: Means) -> Iterable[str]:
    for episode in episodes:
        for field, text in judged_fields(episode, means.language).items():
            yield f"{field}: {text}" if len(episodes) == 1 else f"Step {episode.number}: {field}: {text}"


SIMPLE_EXTRACT = Strategy(
    name="simple_extract",
    title="Simple extract",
    description=(
        "Keeps of each step the names, lines, errors and outcomes that later steps refer to. Needs no "
        "model and costs nothing."
    ),
    covers="step",
    asks_model=False,
    write=write,
    options=ExtractOptions,
)
