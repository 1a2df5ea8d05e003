"""Without a model: the names, lines and outcomes of each step that later steps refer to.

No extract has more tokens than its steps. The words with which people interrupted a step do not count,
because summaries quote them before the extract.
"""

from collections.abc import Iterable, Sequence
from math import ceil

from pydantic import Field

from historyapp.core.entries import Body, StoredModel, ToolResults
from historyapp.core.episodes import Episode
from historyapp.core.strategies.base import Material, Resources, Strategy, SummaryDraft
from historyapp.core.strategies.facts import extract
from historyapp.core.strategies.reviews import review_fields
from historyapp.core.strategies.user_words import compose_summary, user_words
from historyapp.core.text import clean
from historyapp.core.tokens import TokenCounter, entry_text

MAX_TOKENS = 100
MIN_TOKENS = 10
SHORTER = 0.75
"""An extract has at most this share of the tokens of its step."""
FEW_TOKENS = 40
"""An extract with at most this many tokens need not be shorter than its step."""
_MAX_TOKEN = 128
"""Characters of the longest token."""


class ExtractOptions(StoredModel):
    max_tokens: int = Field(MAX_TOKENS, ge=MIN_TOKENS, le=10_000, description="Maximum tokens of a step.")


def write(material: Material, resources: Resources) -> SummaryDraft:
    """Each step in at most ``max_tokens``, within the summary's length."""
    options = resources.options if isinstance(resources.options, ExtractOptions) else ExtractOptions()
    points = []
    for episode in material.episodes:
        step = "" if len(material.episodes) == 1 else f"Step {episode.number}: "
        fields = review_fields(episode, resources.language)
        points += [f"{step}{field}: {text}" for field, text in fields.items()]
    text = extract_steps(material.episodes, resources, options.max_tokens)
    return compose_summary(user_words(material), resources.max_length, text, points)


def extract_steps(episodes: tuple[Episode, ...], resources: Resources, tokens: int = MAX_TOKENS) -> str:
    """Each step within ``tokens``, and shorter than the step itself. Several steps begin with their numbers.

    A step that is shorter than its extract stays unchanged. Numbers are left out if the extracts with them
    would be larger than the steps.
    """
    originals = [step_texts(episode) for episode in episodes]
    texts = []
    for episode, original in zip(episodes, originals, strict=True):
        size = tokens_of(original, ceil(tokens / SHORTER), resources.count)
        room = min(tokens, max(FEW_TOKENS, int(SHORTER * size)))
        text = extract(episode, room, resources.language, resources.count)
        texts.append(smaller_text(text, original, resources.count))
    if len(texts) == 1:
        return texts[0]
    numbered = zip(episodes, texts, strict=True)
    whole = "\n".join(f"Step {episode.number}: {text}" for episode, text in numbered if text)
    original = [text for step in originals for text in step]
    if is_smaller(whole, original, resources.count):
        return whole
    return smaller_text("\n".join(filter(None, texts)), original, resources.count)


def step_texts(episode: Episode) -> list[str]:
    """The text that a model reads of each entry of the step."""
    received = (*episode.results, *episode.unpaired_results)
    results = [result.model_copy(update={"feedback": None}) for result in received]
    answers = (ToolResults(results=(result,)) for result in results)
    bodies: list[Body] = [episode.output, *answers, *episode.reviews]
    return [text for body in bodies if (text := entry_text(body))]


def tokens_of(texts: Iterable[str], limit: int, count: TokenCounter) -> int:
    """The tokens of all texts, counted up to ``limit`` only, because counting long texts takes time."""
    total = 0
    for text in texts:
        if total >= limit:
            break
        read = text[: limit * _MAX_TOKEN]
        # No token spans two words, so long texts need no exact count.
        total += limit if len(read.split(maxsplit=limit)) >= limit else count(read)
    return min(total, limit)


def is_smaller(text: str, originals: Iterable[str], count: TokenCounter) -> bool:
    """Whether a text has at most as many tokens as the originals together."""
    size = count(text)
    return size <= tokens_of(originals, size, count)


def smaller_text(text: str, originals: Sequence[str], count: TokenCounter) -> str:
    """The extract, or, if the originals have fewer tokens, the originals."""
    if is_smaller(text, originals, count):
        return text
    limit = sum(map(count, originals))
    whole = clean(" ".join(" ".join(part.split()) for part in originals))
    if count(whole) <= limit:
        return whole
    length, end = 0, len(whole)
    while length < end:  # the longest beginning within ``limit`` tokens
        middle = (length + end + 1) // 2
        length, end = (middle, end) if count(whole[:middle]) <= limit else (length, middle - 1)
    return whole[:length].strip()


SIMPLE_EXTRACT = Strategy(
    name="simple_extract",
    title="Simple extract",
    description=(
        "Keeps the names, lines, errors and outcomes of each step that later steps refer to. Needs no "
        "model and costs nothing."
    ),
    covers="step",
    uses_model=False,
    write=write,
    options=ExtractOptions,
)
