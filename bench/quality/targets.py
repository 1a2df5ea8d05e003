"""What a step needs from its past: the identifiers of its arguments, and the lines where they first stood."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from bench.quality.corpus import Recorded
from historyapp.core.entries import ModelOutput, text_of
from historyapp.core.identifiers import identifiers, texts_in
from historyapp.core.results import returned_text

FIRST_STEP = 7
WINDOW = 200
"""Characters around an identifier that count as its line where lines are long."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Target:
    """An identifier that the next action writes and that an input or a result told first."""

    name: str
    windows: tuple[frozenset[str], ...]
    """The words around it in each line of the entry where it first stood."""


def targets(recorded: Recorded) -> dict[int, list[Target]]:
    """For each step from the seventh, by its number: what its arguments take from the past."""
    told = _texts(recorded)
    firsts: dict[str, Target | None] = {}
    found: dict[int, list[Target]] = {}
    for episode in recorded.episodes:
        if episode.number < FIRST_STEP:
            continue
        names = dict.fromkeys(name for text in arguments_of(episode.output) for name in identifiers(text))
        wanted = []
        for name in names:
            if name not in firsts:
                firsts[name] = _first(name, episode.first_position, told)
            if (target := firsts[name]) is not None:
                wanted.append(target)
        if wanted:
            found[episode.number] = wanted
    return found


def arguments_of(output: ModelOutput) -> Iterable[str]:
    for call in output.tool_calls:
        yield from texts_in(call.arguments)
    if output.use_tool and not output.tool_calls:
        yield from texts_in(output.use_tool.arguments)


def _texts(recorded: Recorded) -> list[tuple[int, bool, str]]:
    """``(position, whether a model was told, text)``, oldest first; results stand after their step."""
    told = [(entry.position, True, text_of(entry.body.content)) for entry in recorded.inputs]  # type: ignore[union-attr]
    told += [(entry.position, False, getattr(entry.body, "text", "")) for entry in recorded.fixed]
    for episode in recorded.episodes:
        said = "\n".join([episode.thoughts, episode.output.text, *arguments_of(episode.output)])
        told.append((episode.first_position, False, said))
        told.extend((episode.last_position, True, returned_text(result)) for result in episode.results)
    return sorted(told, key=lambda item: item[0])


def _first(name: str, before: int, told: list[tuple[int, bool, str]]) -> Target | None:
    """Where the name first stood; None where the model wrote it first, or nobody did before."""
    for position, to_model, text in told:
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
    """Where the name stands as a whole: no letter, digit or underscore adjoins it."""
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
    """The words of the line in which the name stands, at most 100 characters to either side."""
    reach = max(0, WINDOW - length) // 2
    start = max(text.rfind("\n", 0, at) + 1, at - reach)
    end = text.find("\n", at)
    end = min(len(text) if end < 0 else end, at + length + reach)
    return frozenset(_WORD.findall(text[start:end]))


def is_grounded(target: Target, text: str, spots: list[int]) -> bool:
    """Whether some line with the name has at least half the words of a line in which it first stood."""
    here = {words_around(text, at, len(target.name)) for at in spots}
    return any(2 * len(first & line) >= len(first) for first in target.windows for line in here)
