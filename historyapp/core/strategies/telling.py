"""The material of a prompt: each part quoted as data, condensed where all exceeds the model's window."""

from historyapp.core.chunking import Segmentation, summarise_long
from historyapp.core.quoting import DATA_NOTE, quoted
from historyapp.core.rendering import long_form
from historyapp.core.strategies.asking import ask_twice, plain_answer
from historyapp.core.strategies.base import Material, Means, NotSummarised, Prompt
from historyapp.core.strategies.said import words_of
from historyapp.core.strategies.shortening import clip, shorten

LONGEST_TASK = 2_000
"""Characters of the session's task, which is there for orientation only."""
LONGEST_WORDS = 4_000
"""Characters of what people said; the summary quotes it anyhow."""
PARTIAL_LENGTH = 4_000
"""Characters of a partial summary."""
LEAST_ROOM = 256
"""Tokens of material below which a window is no use."""
_FRAMING = 60
_PARTIAL_OUTPUT = 2_000

PARTIAL = (
    "The material is one part of a longer recording of an AI agent's work. Note down what it says, in "
    "plain sentences of at most 3,000 characters altogether: what was done and found, decisions, errors "
    "and whether they were solved. Keep every path, name, number, version, URL and error message that "
    "later work may need exactly as written. Answer with the notes only.\n\n" + DATA_NOTE
)


def told_steps(material: Material, means: Means, instruction: str) -> str:
    """The steps, what people said and the session's task as the material of a prompt with this instruction.

    Raises:
        NotSummarised: when the window is too small for any material, or a partial answer is no use.
    """
    context = []
    if material.task and material.task not in material.inputs:
        context.append(quoted(clip(material.task, LONGEST_TASK), "task"))
    if words := "\n\n".join(words_of(material)):
        context.append(quoted(shorten(words, LONGEST_WORDS), "user"))
    steps = [(f"step-{episode.number}", long_form(episode)) for episode in material.episodes]
    return told_texts(steps, means, instruction, context)


def told_texts(
    parts: list[tuple[str, str]], means: Means, instruction: str, context: list[str] | None = None
) -> str:
    """Named texts after quoted ``context``, all within the window. Raises as :func:`told_steps`."""
    context = context or []
    whole = "\n\n".join([*context, *(quoted(text, name) for name, text in parts)])
    room = room_for(means, instruction)
    if _fits(whole, room, means):
        return whole
    if means.count("\n\n".join(context)) > room // 2:
        context = []
    left = room - means.count("\n\n".join(context)) - _FRAMING
    text = "\n\n".join(f"## {name}\n{text}" for name, text in parts)
    # What neutralising adds to a quoted text is covered by the room that is left free.
    limit = min(left, room_for(means, PARTIAL) - _FRAMING) * 3 // 4
    reading = Segmentation(means.language.sentences, means.count)
    notes = summarise_long(text, limit, lambda chunk: _partial(chunk, means, limit), shorten, reading)
    return "\n\n".join([*context, quoted(notes, "notes")])


def room_for(means: Means, instruction: str) -> int:
    """Tokens of material that the window has beside an instruction, which may tell of a fault.

    Raises:
        NotSummarised: when these are too few for any.
    """
    room = means.window - means.count(instruction) - _FRAMING
    if room < LEAST_ROOM:
        raise NotSummarised(
            f"The model's window of {means.window:,} tokens is too small for the instruction and any text."
        )
    return room


def _fits(text: str, room: int, means: Means) -> bool:
    """Counts only where the length leaves it open."""
    return len(text) <= room * 100 and (len(text) * 4 <= room or means.count(text) <= room)


def _partial(chunk: str, means: Means, limit: int) -> str:
    """A chunk of at most ``limit`` tokens in a fraction of its length."""
    material = quoted(chunk, "part")
    longest = min(PARTIAL_LENGTH, 2 * limit)
    prompt = Prompt(PARTIAL, material, _PARTIAL_OUTPUT)
    return ask_twice(prompt, means, lambda answer: plain_answer(answer, material, longest))
