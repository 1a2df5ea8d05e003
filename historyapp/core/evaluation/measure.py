"""Measures the context that a policy chose before a step: its tokens, and how much of what the step needs it
contains."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from historyapp.core.context import Item
from historyapp.core.evaluation.targets import NeededIdentifier, coverage
from historyapp.core.identifiers import texts_in
from historyapp.core.json import dump_json


@dataclass(frozen=True, slots=True)
class ChosenContext:
    """A context in the format of OpenAI chat, in which all policies are measured."""

    messages: Sequence[Item]
    """Without instructions, which are the same for every policy."""
    fixed: int
    """The tokens of the instructions."""
    instructions: tuple[str, ...] = ()
    """Contexts with different instructions share no beginning."""


class TokenCounts(NamedTuple):
    """How tokens are counted."""

    message: Callable[[Item], int]
    text: Callable[[str], int]


class Measured(NamedTuple):
    recall: float
    """The share of the needed identifiers that the context contains; ``grounded``: in a similar line."""
    grounded: float
    tokens: int
    """Tokens of the whole request, with the instructions."""
    repeated: int
    """Tokens of the beginning that it shares with the context of the step before."""


def measure(
    targets: Sequence[NeededIdentifier],
    served: ChosenContext,
    before: ChosenContext | None,
    count: TokenCounts,
) -> Measured:
    """The figures of a context.

    Args:
        before: the context of the step before, if there is one.
    """
    sizes = list(map(count.message, served.messages))
    repeated = 0
    if before is not None and before.instructions == served.instructions:
        repeated = served.fixed + _shared(before.messages, served.messages, sizes, count.text)
    recall, grounded = coverage(targets, "\n".join(map(readable, served.messages)))
    return Measured(recall, grounded, served.fixed + sum(sizes), repeated)


def _shared(
    before: Sequence[Item], after: Sequence[Item], sizes: Sequence[int], count: Callable[[str], int]
) -> int:
    """The tokens of the beginning that both contexts share, which may end within a message."""
    shared = 0
    for old, new, size in zip(before, after, sizes, strict=False):
        if old == new:
            shared += size
            continue
        if old["role"] == new["role"]:
            text, other = text_of_message(new), text_of_message(old)
            pairs = enumerate(zip(text, other, strict=False))
            common = next((i for i, (a, b) in pairs if a != b), min(len(text), len(other)))
            shared += count(text[:common])
        break
    return shared


def text_of_message(message: Item) -> str:
    content = message["content"]
    text = content if isinstance(content, str) else dump_json(content)
    return text + dump_json(message["tool_calls"]) if "tool_calls" in message else text


def readable(message: Item) -> str:
    """The text of a message and of the arguments of its tool calls, with real line breaks."""
    arguments = [json.loads(call["function"]["arguments"]) for call in message.get("tool_calls", ())]
    return "\n".join((*texts_in(message["content"]), *texts_in(arguments)))
