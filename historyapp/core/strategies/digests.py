"""Several summaries as one that is short enough, for digests. What they quote of the user stays verbatim."""

from collections.abc import Sequence

from historyapp.core.quoting import DATA_NOTE
from historyapp.core.strategies.asking import ask_twice, plain_answer
from historyapp.core.strategies.base import Means, Prompt, Written
from historyapp.core.strategies.composing import composed
from historyapp.core.strategies.said import take_words
from historyapp.core.strategies.shortening import shorten
from historyapp.core.strategies.telling import told_texts

_OUTPUT = 4_000  # tokens
_ROOM = 0.8  # of the characters that there are: models count badly

INSTRUCTION = (
    "These are summaries of consecutive stretches of an AI agent's work, oldest first. Write one summary "
    "that stands for all of them, of at most {characters:,} characters. Keep what later work may need: the "
    "goal, decisions, every path, name, number, version and URL exactly as written, errors and whether "
    "they were solved, and what is still open. Where something was put right later, keep how it is now. "
    "Answer with the summary only.\n\n" + DATA_NOTE
)


def write_digest(texts: Sequence[str], means: Means) -> Written:
    """One text for several summaries, oldest first; by extraction where there is no model.

    Raises:
        NotSummarised: as strategies do, and what ``Means.ask`` raises.
    """
    words: list[str] = []
    bodies: list[str] = []
    for text in texts:
        said, body = take_words(text)
        words += said
        bodies.append(body.strip())
    bodies = [body for body in bodies if body]
    words = list(dict.fromkeys(words))
    return composed(words, means.max_length, lambda room: _body(bodies, means, room))


def _body(bodies: Sequence[str], means: Means, room: int) -> str:
    joined = "\n".join(bodies)
    if means.ask is None or len(joined) <= room:
        return shorten(joined, room)
    instruction = INSTRUCTION.format(characters=max(1, int(room * _ROOM)))
    parts = [(f"summary-{number}", body) for number, body in enumerate(bodies, 1)]
    told = told_texts(parts, means, instruction)
    prompt = Prompt(instruction, told, _OUTPUT)
    return ask_twice(prompt, means, lambda answer: plain_answer(answer, told, room))
