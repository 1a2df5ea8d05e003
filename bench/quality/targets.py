"""What a step needs from its past: the identifiers in its arguments, and where they first appeared."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from bench.quality.corpus import Recorded
from historyapp.core.entries import ModelOutput, text_of
from historyapp.core.identifiers import identifiers, texts_in
from historyapp.core.results import returned_text

FIRST_STEP = 7
WINDOW = 200
"""Characters around an identifier that count as its line, for long lines."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Target:
    """An identifier in the arguments of the next action that first appeared in an input or a result."""

    name: str
    windows: tuple[frozenset[str], ...]
    """The words around it in each line of the entry where it first appeared."""


def targets(recorded: Recorded) -> dict[int, list[Target]]:
    """The targets of each step from the seventh on, by its number."""
    texts = _texts(recorded)
    firsts: dict[str, Target | None] = {}
    found: dict[int, list[Target]] = {}
    for episode in recorded.episodes:
        if episode.number < FIRST_STEP:
            continue
        names = dict.fromkeys(name for text in arguments_of(episode.output) for name in identifiers(text))
        wanted = []
        for name in names:
            if name not in firsts:
                firsts[name] = _first(name, episode.first_position, texts)
            if (target := firsts[name]) is not None:
                wanted.append(target)
        if wanted:
            found[episode.number] = wanted
    return found


def arguments_of(output: ModelOutput) -> Iterable[str]:
    for tool_call in output.tool_calls:
        yield from texts_in(tool_call.arguments)
    if output.use_tool and not output.tool_calls:
        yield from texts_in(output.use_tool.arguments)


def _texts(recorded: Recorded) -> list[tuple[int, bool, str]]:
    """``(position, whether the model reads it, text)``, oldest first. Results come after their step."""
    texts = [(entry.position, True, text_of(entry.body.content)) for entry in recorded.inputs]  # type: ignore[union-attr]
    texts += [(entry.position, False, getattr(entry.body, "text", "")) for entry in recorded.fixed]
    for episode in recorded.episodes:
        written = "\n".join(
            [episode.output.thoughts_text, episode.output.text, *arguments_of(episode.output)]
        )
        texts.append((episode.first_position, False, written))
        texts.extend((episode.last_position, True, returned_text(result)) for result in episode.results)
    return sorted(texts, key=lambda item: item[0])


def _first(name: str, before: int, texts: list[tuple[int, bool, str]]) -> Target | None:
    """Where the name first appeared, or None if the model wrote it first or it never appeared."""
    for position, to_model, text in texts:
        if position >= before:
            return None
        if spots := occurrences(name, text):
            return (
                Target(name, tuple(words_around(text, at, len(name)) for at in spots[:50]))
                if to_model
                else None
            )
    return None


def occurrences(name: str, text: str) -> list[int]:
    """The places of the name as a whole word: no letter, digit or underscore next to it."""
    found = []
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        before = at > 0 and _is_word(text[at - 1]) and _is_word(name[0])
        after = end < len(text) and _is_word(text[end]) and _is_word(name[-1])
        if not (before or after):
            found.append(at)
        at = text.find(name, at + 1)
    return found


def _is_word(character: str) -> bool:
    return character == "_" or character.isalnum()


def words_around(text: str, at: int, length: int) -> frozenset[str]:
    """The words of the line around the name, at most 100 characters to either side."""
    reach = max(0, WINDOW - length) // 2
    start = max(text.rfind("\n", 0, at) + 1, at - reach)
    end = text.find("\n", at)
    end = min(len(text) if end < 0 else end, at + length + reach)
    return frozenset(_WORD.findall(text[start:end]))


def is_grounded(target: Target, text: str, spots: list[int]) -> bool:
    """Whether a line with the name has at least half the words of a line in which it first appeared."""
    here = {words_around(text, at, len(target.name)) for at in spots}
    return any(2 * len(first & line) >= len(first) for first in target.windows for line in here)
