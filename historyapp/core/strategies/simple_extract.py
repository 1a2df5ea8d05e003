"""Without a model: the names, lines and outcomes that later steps refer to, step by step."""

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field

from historyapp.core.episodes import Episode
from historyapp.core.rendering import long_form
from historyapp.core.strategies.base import Material, Means, Strategy, Written
from historyapp.core.strategies.composing import composed
from historyapp.core.strategies.facts import extract
from historyapp.core.strategies.judged import judged_fields
from historyapp.core.strategies.said import words_of

MAX_TOKENS = 100
LEAST_TOKENS = 10
SHORTER = 0.75
"""Of a step's own tokens, an extract has at most so many."""
LONGEST_TOKEN = 8
"""Characters: longer texts are not counted, they have more tokens than an extract may have."""


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
    """Each step within ``tokens``, and clearly shorter than it is; several begin with their numbers."""
    texts = [
        extract(episode, _room(episode, tokens, means), means.language, means.count) for episode in episodes
    ]
    if len(texts) == 1:
        return texts[0]
    return "\n".join(
        f"Step {episode.number}: {text}" for episode, text in zip(episodes, texts, strict=True) if text
    )


def _room(episode: Episode, tokens: int, means: Means) -> int:
    """An extract that is hardly shorter than a short step would save nothing."""
    whole = long_form(episode)
    if episode.reviews or len(whole) > LONGEST_TOKEN * tokens / SHORTER:
        return tokens  # a judgement is kept whole
    return min(tokens, max(LEAST_TOKENS, round(SHORTER * means.count(whole))))


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
