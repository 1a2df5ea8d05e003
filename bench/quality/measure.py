"""Replays sessions against a policy, and adds up what its contexts contained and what they would cost."""

from collections.abc import Callable
from dataclasses import dataclass, fields

from bench.quality.corpus import Recorded
from bench.quality.costs import cost_of, fixed_cost, readable, text_of_message, tokens_of
from bench.quality.prices import paid
from bench.quality.targets import FIRST_STEP, Target, is_grounded, occurrences
from historyapp.core.context import Item

Serve = Callable[[Recorded, int, int], list[Item]]
"""A policy. Takes a session, the number of the next step, and the budget in tokens."""
_SPOTS = 200  # occurrences of a name in a context that are checked


@dataclass(slots=True)
class Tally:
    """Sums over contexts. Add them up with :meth:`add`."""

    wanted: int = 0
    found: int = 0
    grounded: int = 0
    requests: int = 0
    over: int = 0
    tokens: int = 0
    cached: int = 0
    openai: float = 0.0
    anthropic: float = 0.0

    def add(self, other: "Tally") -> None:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    @property
    def recall(self) -> float:
        """Per cent, like ``grounding`` and ``cache``."""
        return 100 * self.found / max(1, self.wanted)

    @property
    def grounding(self) -> float:
        return 100 * self.grounded / max(1, self.wanted)

    @property
    def cache(self) -> float:
        return 100 * self.cached / max(1, self.tokens)


def play(recorded: Recorded, serve: Serve, budget: int, wanted: dict[int, list[Target]]) -> Tally:
    """Replays one session from its seventh step on. Prices include instructions; the budget does not."""
    tally = Tally()
    fixed = fixed_cost(recorded)
    previous: list[Item] = []
    for step in range(FIRST_STEP, len(recorded.episodes) + 1):
        messages = serve(recorded, step, budget)
        sizes = list(map(cost_of, messages))
        tally.requests += 1
        tally.tokens += fixed + sum(sizes)
        tally.over += sum(sizes) > budget
        repeated = fixed + _shared(previous, messages, sizes) if step > FIRST_STEP else 0
        bill = paid(fixed + sum(sizes), repeated)
        tally.cached += bill.cached
        tally.openai += bill.openai
        tally.anthropic += bill.anthropic
        previous = messages
        _look(tally, wanted.get(step, []), messages)
    return tally


def _look(tally: Tally, targets: list[Target], messages: list[Item]) -> None:
    text = "\n".join(map(readable, messages)) if targets else ""
    for target in targets:
        spots = occurrences(target.name, text)[:_SPOTS]
        tally.wanted += 1
        tally.found += bool(spots)
        tally.grounded += bool(spots) and is_grounded(target, text, spots)


def _shared(before: list[Item], now: list[Item], sizes: list[int]) -> int:
    """The tokens of the beginning that both contexts share, within the first different message too."""
    shared = 0
    for old, new, size in zip(before, now, sizes, strict=False):
        if old == new:
            shared += size
            continue
        if old["role"] == new["role"]:
            text, other = text_of_message(new), text_of_message(old)
            pairs = enumerate(zip(text, other, strict=False))
            same = next((i for i, (a, b) in pairs if a != b), min(len(text), len(other)))
            shared += tokens_of(text[:same])
        break
    return shared
