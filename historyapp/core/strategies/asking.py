"""Questions to a model: answers are checked, and asked for once more where they are no use."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from historyapp.core.quoting import has_tag
from historyapp.core.strategies.base import Means, NotSummarised, Prompt
from historyapp.core.strategies.shortening import shorten
from historyapp.core.text import clean

T = TypeVar("T")

TOO_LONG = 10
"""Times the wanted length beyond which a second answer is not shortened but refused."""
_LONGEST_REFUSAL = 400
_SHORTEST_ECHO = 400
_LONGEST_ECHO = 200_000
_REFUSAL = re.compile(
    r"\W*(?:(?:I'm|I am) (?:sorry|unable|not able)|sorry\b|as an AI\b"
    r"|(?:I|we) (?:can(?:no|')t|won't) "
    r"(?:help|assist|comply|summari[sz]e|provide|fulfil|process|do (?:that|this)))",
    re.IGNORECASE,
)
_FENCE = re.compile(r"\s*```[\w-]*\n(.*?)\n?```\s*", re.DOTALL)


class Fault(Exception):
    """An answer that is no use."""

    def __init__(self, reason: str, usable: Any = None) -> None:
        """``reason`` goes on from "The model's answer"; in our own words only, because the model is told.

        ``usable``: what can be made of the answer after all, if a second one is no better.
        """
        super().__init__(reason)
        self.reason = reason
        self.usable = usable


def ask_twice(prompt: Prompt, means: Means, read: Callable[[str], T]) -> T:
    """The first answer that ``read`` takes. The second question tells what was wrong with the first answer.

    Raises:
        NotSummarised: when both are no use.
    """
    assert means.ask is not None
    try:
        return read(means.ask(prompt))
    except Fault as fault:
        again = f"{prompt.instruction}\n\nAn earlier answer to this {fault.reason}. Answer again, and better."
    try:
        return read(means.ask(replace(prompt, instruction=again)))
    except Fault as fault:
        if fault.usable is not None:
            found: T = fault.usable
            return found
        raise NotSummarised(f"The model's answer {fault.reason}, twice.") from None


def plain_answer(answer: str, material: str, longest: int) -> str:
    """An answer in words, checked.

    Raises:
        Fault: when it is empty, a refusal, too long, or a copy of the material.
    """
    text = without_fence(check_size(answer, longest))
    refuse_nonsense(text, material)
    if len(text) > longest:
        reason = f"was {len(text):,} characters long, where at most {longest:,} were wanted"
        raise Fault(reason, shorten(text, longest))
    return text


def check_size(answer: str, longest: int) -> str:
    """The answer as clean text. Raises ``Fault`` where it is so long that it is none."""
    if len(answer) > TOO_LONG * max(longest, 1000):
        raise Fault(f"was {len(answer):,} characters long, where at most {longest:,} were wanted")
    return clean(answer).strip()


def without_fence(text: str) -> str:
    """What stands in the code block that is the whole text; the text where there is none."""
    found = _FENCE.fullmatch(text)
    return (found[1] if found else text).strip()


def refuse_nonsense(text: str, material: str) -> None:
    """Raises ``Fault`` for an answer that is empty, a refusal or a copy of the material."""
    if not any(character.isalnum() for character in text):
        raise Fault("was empty")
    if len(text) <= _LONGEST_REFUSAL and _REFUSAL.match(text.replace("’", "'")):
        raise Fault("was a refusal")
    if has_tag(text) or (len(text) >= _SHORTEST_ECHO and _one_line(text) in _one_line(material)):
        raise Fault("repeated the material instead of reporting on it")


def _one_line(text: str) -> str:
    return " ".join(text[:_LONGEST_ECHO].split())
