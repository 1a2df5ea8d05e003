"""Digests: one shorter summary for several summaries. The user's words in them stay verbatim."""

from collections.abc import Sequence

from historyapp.core.quoting import DATA_NOTE
from historyapp.core.strategies.base import Resources, SummaryDraft, SummaryPrompt
from historyapp.core.strategies.prompts import complete_checked, plain_answer, quote_texts
from historyapp.core.strategies.shortening import clip, shorten
from historyapp.core.strategies.user_words import compose_summary, split_words

_OUTPUT = 4_000  # tokens
_ROOM = 0.8  # the prompt asks for this share of the length, because models often exceed it

INSTRUCTION = (
    "These are summaries of consecutive stretches of an AI agent's work, oldest first. Write one summary "
    "that stands for all of them, of at most {characters:,} characters. Keep what later work may need: the "
    "goal, decisions, every path, name, number, version and URL exactly as written, errors and whether "
    "they were solved, and what is still open. Where something was put right later, keep how it is now. "
    "Answer with the summary only.\n\n" + DATA_NOTE
)


def write_digest(texts: Sequence[str], resources: Resources) -> SummaryDraft:
    """One text for several summaries, oldest first; an extract if there is no model.

    Raises:
        NotSummarised: if the model returns no usable answer. Errors of ``Resources.complete`` are raised too.
    """
    parts = [split_words(text) for text in texts]
    words = dict.fromkeys(word for words, _ in parts for word in words)
    bodies = [body.strip() for _, body in parts if body.strip()]
    return compose_summary(list(words), resources.max_length, lambda room: _body(bodies, resources, room))


def clip_summary(text: str, room: int) -> str:
    """The beginning and the end of a summary in at most ``room`` characters. The user's words at its
    beginning stay whole if they fit."""
    if len(text) <= room:
        return text
    beginning = text[:room]
    quoted = room - len(split_words(beginning)[1])
    return text[:quoted] + clip(text[quoted:], room - quoted) if 0 < quoted < room else clip(text, room)


def numbered(text: str, step: int) -> str:
    """The summary of one step with the step's number after the user's words. A table already has the
    number."""
    _, body = split_words(text)
    if text.startswith("{") or not body.strip():
        return text
    return f"{text[: len(text) - len(body)]}Step {step}: {body.lstrip()}"


def _body(bodies: Sequence[str], resources: Resources, room: int) -> str:
    joined = "\n".join(bodies)
    if resources.complete is None or len(joined) <= room:
        return shorten(joined, room)
    instruction = INSTRUCTION.format(characters=max(1, int(room * _ROOM)))
    parts = [(f"summary-{number}", body) for number, body in enumerate(bodies, 1)]
    quoted = quote_texts(parts, resources, instruction)
    prompt = SummaryPrompt(instruction, quoted, _OUTPUT)
    return complete_checked(prompt, resources, lambda answer: plain_answer(answer, quoted, room))
