"""The baselines: what agents do today, as policies. They share Playhead's messages and token counts."""

import sys
from collections.abc import Iterator
from dataclasses import replace

from bench.quality.corpus import Recorded
from bench.quality.costs import cost_of, messages_of, tokens_of
from bench.quality.measure import Serve
from historyapp.core.context import Item
from historyapp.core.conversation import InputMessage, input_messages
from historyapp.core.entries import text_of
from historyapp.core.episodes import Episode
from historyapp.core.evaluation.targets import argument_texts
from historyapp.core.identifiers import identifiers
from historyapp.core.policies.base import Unit, unit_position
from historyapp.core.policies.clipping import without_reasoning
from historyapp.core.progress import progress_line
from historyapp.core.results import returned_text, with_only_text

MASK_BEYOND = 10
NAMES = 0.5
"""Share of the budget for a list of names."""
USED = 4.0
"""The score of a name in arguments; one that was read has 1."""
HALF_LIFE = 24
"""Entries after which the score of a name that did not appear again is halved."""
SEEN = "Seen so far: "
FULL_STEPS = 4
MASK = "[output of step {} left out]"
PROGRESS = "## Progress on your Task so far\n"
_SEPARATOR = 2  # tokens at most


def newest(recorded: Recorded, step: int, budget: int) -> list[Item]:
    """The newest steps and inputs that fit, in full."""
    return _fill(_units(recorded, step), budget)[0]


def whole(recorded: Recorded, step: int, _budget: int) -> list[Item]:
    """All steps and inputs: what a model with a large window gets without any policy."""
    return newest(recorded, step, sys.maxsize)


def newest_clipped(recorded: Recorded, step: int, budget: int) -> list[Item]:
    """The same, and the beginning of the first one that does not fit."""
    kept, missed = _fill(_units(recorded, step), budget)
    if missed is None:
        return kept
    return [*_clipped(_messages(missed), budget - _cost(kept)), *kept]


def masked(recorded: Recorded, step: int, budget: int) -> list[Item]:
    """Masks the results of all but the newest ten steps, and drops the oldest steps until the rest fits."""
    return _fill((_mask(unit, step) for unit in _units(recorded, step)), budget)[0]


def episodic(recorded: Recorded, step: int, budget: int) -> list[Item]:
    """The episodic history of an earlier system, with fewer than four full steps where four do not fit."""
    episodes = recorded.episodes[: step - 1]
    for full in range(min(FULL_STEPS, len(episodes)), -1, -1):
        recent = episodes[len(episodes) - full :]
        after = recent[0].first_position if recent else episodes[-1].first_position
        units = [u for u in _units(recorded, step) if u in recent or _is_input_after(u, after)]
        messages = [message for unit in units[::-1] for message in _messages(unit)]
        if _cost(messages) <= budget:
            break
    else:
        return []
    left = budget - _cost(messages) - cost_of({"role": "user", "content": PROGRESS})
    lines: list[str] = []
    for episode in reversed(episodes[: len(episodes) - full]):
        line = progress_line(episode)
        left -= tokens_of(line) + _SEPARATOR
        if left < 0:
            break
        lines.insert(0, line)
    return [{"role": "user", "content": PROGRESS + "\n\n".join(lines)}, *messages] if lines else messages


def names_and_newest(recorded: Recorded, step: int, budget: int) -> list[Item]:
    """A list of all names seen so far, by use and recency, in half of the budget, then *newest clipped*."""
    end = recorded.episodes[step - 1].first_position
    scores: dict[str, float] = {}
    for number, (_, names, score) in enumerate(entry for entry in _names(recorded) if entry[0] < end):
        for name in names:
            scores[name] = scores.get(name, 0.0) + score * 2.0 ** (number / HALF_LIFE)
    found = sorted(scores, key=lambda name: -scores[name])[: budget // 2]
    listed: list[Item] = [{"role": "user", "content": SEEN + " ".join(found)}] if found else []
    while _cost(listed) > NAMES * budget:
        found = found[: len(found) * 19 // 20]
        listed = [{"role": "user", "content": SEEN + " ".join(found)}] if found else []
    return [*listed, *newest_clipped(recorded, step, budget - _cost(listed))]


_listed: dict[int, tuple[Recorded, list[tuple[int, list[str], float]]]] = {}


def _names(recorded: Recorded) -> list[tuple[int, list[str], float]]:
    """``(position, names, score of each)`` for inputs, calls and results, oldest first."""
    if id(recorded) not in _listed:
        entries = [(entry.position, [text_of(entry.body.content)], 1.0) for entry in recorded.inputs]  # type: ignore[union-attr]
        for episode in recorded.episodes:
            entries.append((episode.first_position, [*argument_texts(episode.output)], USED))
            entries.append((episode.last_position, [*map(returned_text, episode.results)], 1.0))
        named = [
            (at, list(dict.fromkeys(name for text in texts for name in identifiers(text))), score)
            for at, texts, score in sorted(entries, key=lambda entry: entry[0])
        ]
        _listed[id(recorded)] = recorded, named
    return _listed[id(recorded)][1]


BASELINES: dict[str, Serve] = {
    "newest that fit": newest,
    "newest clipped": newest_clipped,
    "names and newest": names_and_newest,
    "masked beyond 10": masked,
    "episodic": episodic,
}


def _units(recorded: Recorded, step: int) -> Iterator[Unit]:
    """Steps before ``step`` and the inputs between them, newest first."""
    before = recorded.episodes[step - 1].first_position
    units: list[Unit] = [*recorded.episodes[: step - 1]]
    units += [
        aside for entry in recorded.inputs if entry.position < before for aside in input_messages(entry)
    ]
    yield from sorted(units, key=unit_position, reverse=True)


def _is_input_after(unit: Unit, position: int) -> bool:
    return isinstance(unit, InputMessage) and unit.position > position


def _messages(unit: Unit) -> list[Item]:
    if isinstance(unit, InputMessage):
        return messages_of(unit)
    return messages_of(without_reasoning(unit))


def _cost(messages: list[Item]) -> int:
    return sum(map(cost_of, messages))


def _mask(unit: Unit, step: int) -> Unit:
    if not isinstance(unit, Episode) or unit.number >= step - MASK_BEYOND:
        return unit
    text = MASK.format(unit.number)
    masked = [answered._replace(result=with_only_text(answered.result, text)) for answered in unit.received]
    return replace(unit, received=tuple(masked))


def _fill(stream: Iterator[Unit], budget: int) -> tuple[list[Item], Unit | None]:
    """The units that fit, oldest first, and the first unit that does not."""
    kept: list[list[Item]] = []
    missed = None
    for unit in stream:
        messages = _messages(unit)
        budget -= _cost(messages)
        if budget < 0:
            missed = unit
            break
        kept.append(messages)
    return [message for group in reversed(kept) for message in group], missed


def _clipped(messages: list[Item], budget: int) -> list[Item]:
    """Cuts off the ends of the longest texts until the messages fit; an empty list if they cannot."""
    for _ in range(12):
        over = _cost(messages) - budget
        if over <= 0:
            return messages
        longest = max(range(len(messages)), key=lambda i: len(str(messages[i]["content"])))
        text = messages[longest]["content"]
        if not isinstance(text, str) or not text:
            return []
        clipped = text[: max(0, len(text) - max(8, over * 3))]
        messages = [*messages]
        messages[longest] = {**messages[longest], "content": clipped}
    return []
