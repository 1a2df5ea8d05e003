"""No extract is larger than the steps that it stands for: what steps have by themselves, in tokens.

What people said to interrupt a step does not count. Summaries quote it word for word before everything else,
beside what is made of the steps.
"""

from collections.abc import Iterable, Sequence

from historyapp.core.entries import Body, ToolResults
from historyapp.core.episodes import Episode
from historyapp.core.text import clean
from historyapp.core.tokens import TokenCounter, entry_text

_LONGEST_TOKEN = 128
"""Characters."""


def own_texts(episode: Episode) -> list[str]:
    """What a model would read of each of the step's entries."""
    results = [result.model_copy(update={"feedback": None}) for result in (*episode.results, *episode.strays)]
    bodies: list[Body] = [
        episode.output,
        *(ToolResults(results=(result,)) for result in results),
        *episode.reviews,
    ]
    return [text for body in bodies if (text := entry_text(body))]


def tokens_of(texts: Iterable[str], most: int, count: TokenCounter) -> int:
    """Tokens that the texts have together; ``most`` where they have more, whose number costs time to find."""
    total = 0
    for text in texts:
        if total >= most:
            break
        read = text[: most * _LONGEST_TOKEN]
        # No token spans two words: this spares counting most of the long texts.
        total += most if len(read.split(maxsplit=most)) >= most else count(read)
    return min(total, most)


def saves(text: str, texts: Iterable[str], count: TokenCounter) -> bool:
    """Whether a text has no more tokens than the texts that it stands for."""
    size = count(text)
    return size <= tokens_of(texts, size, count)


def no_larger(text: str, texts: Sequence[str], count: TokenCounter) -> str:
    """An extract, or in its place the texts themselves where it has more tokens than these.

    Args:
        texts: of a few words each in this case, as an extract of them would be.
    """
    if saves(text, texts, count):
        return text
    most = sum(map(count, texts))
    words = (" ".join(part.split()) for part in texts)
    whole = clean(" ".join(words))
    return whole if count(whole) <= most else _within(whole, most, count)


def _within(text: str, most: int, count: TokenCounter) -> str:
    """The longest beginning of a short text within a number of tokens."""
    least, end = 0, len(text)
    while least < end:
        middle = (least + end + 1) // 2
        least, end = (middle, end) if count(text[:middle]) <= most else (least, middle - 1)
    return text[:least].strip()
