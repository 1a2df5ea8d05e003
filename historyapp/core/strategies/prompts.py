"""Makes prompts with material that fits the window of the run's model, and checks the answers."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from historyapp.core.chunking import Segmentation, summarise_long
from historyapp.core.quoting import DATA_NOTE, has_tag, quoted
from historyapp.core.rendering import long_form
from historyapp.core.strategies.base import Material, NotSummarised, Resources, SummaryPrompt
from historyapp.core.strategies.shortening import MAX_READ, clip, clip_longest, shorten
from historyapp.core.strategies.user_words import user_words
from historyapp.core.text import clean

T = TypeVar("T")

MAX_TASK = 2_000
"""Characters of the session's task in a prompt."""
MAX_WORDS = 4_000
"""Characters of the user's words in a prompt. The summary quotes them separately."""
PARTIAL_LENGTH = 4_000
"""Characters of a partial summary."""
MIN_ROOM = 256
"""The minimum number of tokens of material that a window must have room for."""
TOO_LONG = 10
"""An answer longer than this many times the requested length is refused instead of shortened."""
_FRAMING = 60
_PARTIAL_OUTPUT = 2_000
_MAX_REFUSAL = 400
_MIN_ECHO = 400
_MAX_ECHO = 200_000
_REFUSAL = re.compile(
    r"\W*(?:(?:I'm|I am) (?:sorry|unable|not able)|sorry\b|as an AI\b"
    r"|(?:I|we) (?:can(?:no|')t|won't) "
    r"(?:help|assist|comply|summari[sz]e|provide|fulfil|process|do (?:that|this)))",
    re.IGNORECASE,
)
_FENCE = re.compile(r"\s*```[\w-]*\n(.*?)\n?```\s*", re.DOTALL)

PARTIAL = (
    "The material is one part of a longer recording of an AI agent's work. Note down what it says, in "
    "plain sentences of at most 3,000 characters altogether: what was done and found, decisions, errors "
    "and whether they were solved. Keep every path, name, number, version, URL and error message that "
    "later work may need exactly as written. Answer with the notes only.\n\n" + DATA_NOTE
)


def quote_steps(material: Material, resources: Resources, instruction: str) -> str:
    """The steps, the user's words and the session's task as the material of a prompt with this instruction.

    Raises:
        NotSummarised: if the window is too small for any material, or a partial answer is unusable.
    """
    context = []
    if material.task and material.task not in material.inputs:
        context.append(quoted(clip(material.task, MAX_TASK), "task"))
    if words := "\n\n".join(user_words(material)):
        context.append(quoted(shorten(words, MAX_WORDS), "user"))
    steps = [(f"step-{episode.number}", long_form(episode)) for episode in material.episodes]
    return quote_texts(steps, resources, instruction, context)


def quote_texts(
    parts: list[tuple[str, str]], resources: Resources, instruction: str, context: list[str] | None = None
) -> str:
    """Named texts after quoted ``context``, condensed to fit the window. Raises as :func:`quote_steps`.

    Of the texts, :data:`MAX_READ` characters are read, or more if the window is larger.
    """
    context = context or []
    room = room_for(resources, instruction)
    texts = clip_longest([text for _, text in parts], max(MAX_READ, 4 * room))
    parts = [(name, text) for (name, _), text in zip(parts, texts, strict=True)]
    whole = "\n\n".join([*context, *(quoted(text, name) for name, text in parts)])
    # Counting takes time, so it is skipped if the length decides.
    if len(whole) <= room * 100 and (len(whole) * 4 <= room or resources.count(whole) <= room):
        return whole
    if resources.count("\n\n".join(context)) > room // 2:
        context = []
    text_room = room - resources.count("\n\n".join(context)) - _FRAMING
    text = "\n\n".join(f"## {name}\n{text}" for name, text in parts)
    # A quarter stays free for the characters that quoting adds.
    limit = min(text_room, room_for(resources, PARTIAL) - _FRAMING) * 3 // 4
    segmentation = Segmentation(resources.language.sentences, resources.count)
    notes = summarise_long(
        text, limit, lambda chunk: _partial(chunk, resources, limit), shorten, segmentation
    )
    return "\n\n".join([*context, quoted(notes, "notes")])


def room_for(resources: Resources, instruction: str) -> int:
    """The tokens of material that fit the window next to an instruction.

    Raises:
        NotSummarised: if they are too few.
    """
    room = resources.window - resources.count(instruction) - _FRAMING
    if room < MIN_ROOM:
        window = f"The model's window of {resources.window:,} tokens"
        raise NotSummarised(f"{window} is too small for the instruction and any text.")
    return room


def _partial(chunk: str, resources: Resources, limit: int) -> str:
    """The model's notes on a chunk of at most ``limit`` tokens."""
    material = quoted(chunk, "part")
    max_length = min(PARTIAL_LENGTH, 2 * limit)
    prompt = SummaryPrompt(PARTIAL, material, _PARTIAL_OUTPUT)
    return complete_checked(prompt, resources, lambda answer: plain_answer(answer, material, max_length))


class UnusableAnswer(Exception):
    """An answer that cannot be used."""

    def __init__(self, reason: str, fallback: Any = None) -> None:
        """``reason`` completes "The model's answer …". It must not quote the answer: the next prompt has it.

        ``fallback``: the value to use if the second answer cannot be used either.
        """
        super().__init__(reason)
        self.reason = reason
        self.fallback = fallback


def complete_checked(prompt: SummaryPrompt, resources: Resources, parse: Callable[[str], T]) -> T:
    """The parsed answer. If the first answer cannot be used, a second request says why.

    Raises:
        NotSummarised: if neither answer can be used.
    """
    assert resources.complete is not None
    try:
        return parse(resources.complete(prompt))
    except UnusableAnswer as unusable:
        second_instruction = (
            f"{prompt.instruction}\n\nAn earlier answer to this {unusable.reason}. Answer again, and better."
        )
    try:
        return parse(resources.complete(replace(prompt, instruction=second_instruction)))
    except UnusableAnswer as unusable:
        if unusable.fallback is not None:
            fallback: T = unusable.fallback
            return fallback
        raise NotSummarised(f"The model's answer {unusable.reason}, twice.") from None


def plain_answer(answer: str, material: str, max_length: int) -> str:
    """A checked answer in plain text.

    Raises:
        UnusableAnswer: if it is empty, a refusal, too long, or a copy of the material.
    """
    text = bare_answer(answer, max_length)
    check_content(text, material)
    if len(text) > max_length:
        reason = f"was {len(text):,} characters long instead of at most {max_length:,}"
        raise UnusableAnswer(reason, shorten(text, max_length))
    return text


def bare_answer(answer: str, max_length: int) -> str:
    """The answer as clean text without a code fence around it.

    Raises:
        UnusableAnswer: if it is far too long.
    """
    if len(answer) > TOO_LONG * max(max_length, 1000):
        raise UnusableAnswer(f"was {len(answer):,} characters long instead of at most {max_length:,}")
    text = clean(answer).strip()
    match = _FENCE.fullmatch(text)
    return (match[1] if match else text).strip()


def check_content(text: str, material: str) -> None:
    """Raises ``UnusableAnswer`` for an answer that is empty, a refusal or a copy of the material."""
    if not any(character.isalnum() for character in text):
        raise UnusableAnswer("was empty")
    if len(text) <= _MAX_REFUSAL and _REFUSAL.match(text.replace("’", "'")):
        raise UnusableAnswer("was a refusal")
    line, source = (" ".join(part[:_MAX_ECHO].split()) for part in (text, material))
    if has_tag(text) or (len(text) >= _MIN_ECHO and line in source):
        raise UnusableAnswer("copied the material")
