"""What a step needs from its past: the identifiers in its arguments, and where they first appeared.

docs/context-quality.md defines recall and grounded recall.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from historyapp.core.entries import Entry, ModelOutput, text_of
from historyapp.core.episodes import Episode
from historyapp.core.evaluation.name_search import NameSearch, first_places
from historyapp.core.identifiers import identifiers, texts_in, word_places
from historyapp.core.results import returned_text

FIRST_STEP = 7
"""The first step that is measured: before it, there is little history to choose from."""
DECISIONS = 16
"""The maximum number of measured steps of a session, spread evenly, so that long sessions do not dominate."""
MAX_CHARACTERS = 1_000_000
"""The maximum number of characters of an argument in which identifiers are looked for. A pattern that reads a
longer word takes 120 bytes of memory for each character, and no other thread runs meanwhile."""
WINDOW = 200
"""Characters around an identifier that count as its line, for long lines."""
_MAX_PLACES = 200  # occurrences of a name in a context that are checked
_MAX_WINDOWS = 50  # occurrences of a name in the entry where it first appeared
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
    recording: RecordedSession,
    max_steps: int | None = None,
    max_names: int | None = None,
    keep_alive: Callable[[], object] = lambda: None,
) -> dict[int, list[NeededIdentifier]]:
    """The targets of each step from the seventh on, by its number. Steps without targets are left out.

    Args:
        max_steps: the maximum number of steps with identifiers to read, spread evenly.
        max_names: the maximum number of identifiers to read of each step.
        keep_alive: called often. It may raise an exception to end the work.
    """
    steps_with_names = []
    for episode in recording.episodes[FIRST_STEP - 1 :]:
        keep_alive()
        texts = argument_texts(episode.output)
        names = dict.fromkeys(name for text in texts for name in identifiers(text[:MAX_CHARACTERS]))
        if names:
            steps_with_names.append((episode, list(names)[:max_names]))
    steps = steps_with_names if max_steps is None else spread(steps_with_names, max_steps)
    used_at: dict[str, int] = {}
    for episode, step_names in steps:
        for name in step_names:
            used_at.setdefault(name, episode.first_position)
    needed = _needed(used_at, _texts(recording), keep_alive)
    targets_by_step = {
        episode.number: [needed[name] for name in step_names if name in needed]
        for episode, step_names in steps
    }
    return {number: step_targets for number, step_targets in targets_by_step.items() if step_targets}


def measured_steps(targets_by_step: dict[int, list[NeededIdentifier]]) -> list[int]:
    """The steps to measure, chosen from those that need earlier identifiers."""
    return spread(sorted(targets_by_step), DECISIONS)


def spread(items: Sequence[T], limit: int) -> list[T]:
    """At most ``limit`` of the items, spread evenly, in their order."""
    count = min(limit, len(items))
    return [items[(2 * number + 1) * len(items) // (2 * count)] for number in range(count)]


def argument_texts(output: ModelOutput) -> Iterable[str]:
    for tool_call in output.tool_calls:
        yield from texts_in(tool_call.arguments)
    if output.use_tool and not output.tool_calls:
        yield from texts_in(output.use_tool.arguments)


def coverage(targets: Sequence[NeededIdentifier], text: str) -> tuple[float, float]:
    """The share of the targets that a text contains, and the share that it contains in a similar line."""
    contained = grounded = 0
    places_by_name = first_places([target.name for target in targets], text, _MAX_PLACES)
    for target in targets:
        places = places_by_name.get(target.name, [])
        contained += bool(places)
        grounded += bool(places) and is_grounded(target, text, places)
    return contained / len(targets), grounded / len(targets)


def _texts(recording: RecordedSession) -> list[tuple[int, bool, str]]:
    """``(position, whether the model reads it, text)``, oldest first. Results come after their step."""
    texts = [
        (entry.position, True, text_of(getattr(entry.body, "content", ""))) for entry in recording.inputs
    ]
    texts += [(entry.position, False, getattr(entry.body, "text", "")) for entry in recording.fixed]
    for episode in recording.episodes:
        written = "\n".join(
            [episode.output.thoughts_text, episode.output.text, *argument_texts(episode.output)]
        )
        texts.append((episode.first_position, False, written))
        texts.extend((episode.last_position, True, returned_text(result)) for result in episode.results)
    return sorted(texts, key=lambda item: item[0])


def _needed(
    used_at: Mapping[str, int], texts: Iterable[tuple[int, bool, str]], keep_alive: Callable[[], object]
) -> dict[str, NeededIdentifier]:
    """The names that appeared in an input or a result before the agent used them, with the lines there.

    Args:
        used_at: the position of the first measured step that uses each name.
    """
    needed = {}
    search = NameSearch(used_at)
    for position, is_model_input, text in texts:
        for name, places in search.find(text, _MAX_WINDOWS, keep_alive).items():
            if is_model_input and position < used_at[name]:
                windows = tuple([words_around(text, at, len(name)) for at in places])
                needed[name] = NeededIdentifier(name, windows)
        if search.is_done:
            break
    return needed


def occurrences(name: str, text: str) -> list[int]:
    """The places of the name as a whole word, without a letter, digit or underscore next to it."""
    return list(word_places(name, text))


def words_around(text: str, at: int, length: int) -> frozenset[str]:
    """The words of the line around the name, at most 100 characters to either side."""
    reach = max(0, WINDOW - length) // 2
    start, end = max(0, at - reach), min(len(text), at + length + reach)
    start = max(start, text.rfind("\n", start, at) + 1)
    end_of_line = text.find("\n", at, end)
    end = end if end_of_line < 0 else end_of_line
    return frozenset(_WORD.findall(text[start:end]))


def is_grounded(target: NeededIdentifier, text: str, places: list[int]) -> bool:
    """Whether a line with the name has at least half the words of a line in which it first appeared."""
    lines = {words_around(text, at, len(target.name)) for at in places}
    return any(2 * len(window & line) >= len(window) for window in target.windows for line in lines)
