"""What a step needs from its past: the identifiers in its arguments, and where they first appeared.

docs/context-quality.md defines recall and grounded recall.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from historyapp.core.entries import Entry, ModelOutput, text_of
from historyapp.core.episodes import Episode
from historyapp.core.identifiers import identifiers, texts_in, word_places
from historyapp.core.results import returned_text

FIRST_STEP = 7
"""Earlier steps have little to choose from."""
DECISIONS = 16
"""The maximum number of measured steps of a session, spread evenly. Long sessions must not dominate."""
WINDOW = 200
"""Characters around an identifier that count as its line, for long lines."""
_SPOTS = 200  # occurrences of a name in a context that are checked
_WINDOWS = 50  # occurrences of a name in the entry where it first appeared
_WORD = re.compile(r"\w+")
T = TypeVar("T")


class RecordedSession(Protocol):
    """The live entries of a session."""

    @property
    def episodes(self) -> Sequence[Episode]: ...
    @property
    def inputs(self) -> Sequence[Entry]: ...
    @property
    def fixed(self) -> Sequence[Entry]:
        """Instructions and notebooks."""
        ...


@dataclass(frozen=True, slots=True)
class NeededIdentifier:
    """An identifier in the arguments of the next action that first appeared in an input or a result."""

    name: str
    windows: tuple[frozenset[str], ...]
    """The words around it in each line of the entry where it first appeared."""


def targets(
    recording: RecordedSession, max_steps: int | None = None, max_names: int | None = None
) -> dict[int, list[NeededIdentifier]]:
    """The targets of each step from the seventh on, by its number. Steps without targets are left out.

    Args:
        max_steps: look only at as many of the steps with identifiers, spread evenly.
        max_names: look only at the first identifiers of each step.
    """
    named = []
    for episode in recording.episodes[FIRST_STEP - 1 :]:
        names = dict.fromkeys(name for text in arguments_of(episode.output) for name in identifiers(text))
        if names:
            named.append((episode, list(names)[:max_names]))
    texts = _texts(recording)
    firsts: dict[str, NeededIdentifier | None] = {}
    needs: dict[int, list[NeededIdentifier]] = {}
    for episode, names_of_step in named if max_steps is None else spread(named, max_steps):
        wanted = []
        for name in names_of_step:
            if name not in firsts:
                firsts[name] = _first(name, episode.first_position, texts)
            if (target := firsts[name]) is not None:
                wanted.append(target)
        if wanted:
            needs[episode.number] = wanted
    return needs


def measured_steps(needs: dict[int, list[NeededIdentifier]]) -> list[int]:
    """The steps that are measured, of those that need earlier identifiers."""
    return spread(sorted(needs), DECISIONS)


def spread(items: Sequence[T], limit: int) -> list[T]:
    """At most ``limit`` of the items, spread evenly, in their order."""
    few = min(limit, len(items))
    return [items[(2 * number + 1) * len(items) // (2 * few)] for number in range(few)]


def arguments_of(output: ModelOutput) -> Iterable[str]:
    for tool_call in output.tool_calls:
        yield from texts_in(tool_call.arguments)
    if output.use_tool and not output.tool_calls:
        yield from texts_in(output.use_tool.arguments)


def coverage(targets: Sequence[NeededIdentifier], text: str) -> tuple[float, float]:
    """The share of the targets that a text contains, and that it contains with the words around them."""
    contained = grounded = 0
    for target in targets:
        spots = occurrences(target.name, text)[:_SPOTS]
        contained += bool(spots)
        grounded += bool(spots) and is_grounded(target, text, spots)
    return contained / len(targets), grounded / len(targets)


def _texts(recording: RecordedSession) -> list[tuple[int, bool, str]]:
    """``(position, whether the model reads it, text)``, oldest first. Results come after their step."""
    texts = [
        (entry.position, True, text_of(getattr(entry.body, "content", ""))) for entry in recording.inputs
    ]
    texts += [(entry.position, False, getattr(entry.body, "text", "")) for entry in recording.fixed]
    for episode in recording.episodes:
        written = "\n".join(
            [episode.output.thoughts_text, episode.output.text, *arguments_of(episode.output)]
        )
        texts.append((episode.first_position, False, written))
        texts.extend((episode.last_position, True, returned_text(result)) for result in episode.results)
    return sorted(texts, key=lambda item: item[0])


def _first(name: str, before: int, texts: list[tuple[int, bool, str]]) -> NeededIdentifier | None:
    """Where the name first appeared, or None if the model wrote it first or it never appeared."""
    for position, to_model, text in texts:
        if position >= before:
            return None
        if spots := occurrences(name, text):
            windows = tuple(words_around(text, at, len(name)) for at in spots[:_WINDOWS])
            return NeededIdentifier(name, windows) if to_model else None
    return None


def occurrences(name: str, text: str) -> list[int]:
    """The places of the name as a whole word: no letter, digit or underscore next to it."""
    return list(word_places(name, text))


def words_around(text: str, at: int, length: int) -> frozenset[str]:
    """The words of the line around the name, at most 100 characters to either side."""
    reach = max(0, WINDOW - length) // 2
    start = max(text.rfind("\n", 0, at) + 1, at - reach)
    end = text.find("\n", at)
    end = min(len(text) if end < 0 else end, at + length + reach)
    return frozenset(_WORD.findall(text[start:end]))


def is_grounded(target: NeededIdentifier, text: str, spots: list[int]) -> bool:
    """Whether a line with the name has at least half the words of a line in which it first appeared."""
    here = {words_around(text, at, len(target.name)) for at in spots}
    return any(2 * len(first & line) >= len(first) for first in target.windows for line in here)
