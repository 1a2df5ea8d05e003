"""Builds a policy's contexts before some steps of a session, and measures what they contain and cost."""

from collections.abc import Callable
from dataclasses import dataclass, field

from bench.quality.corpus import Recorded
from bench.quality.costs import cost_of, fixed_cost, readable, text_of_message, tokens_of
from bench.quality.intervals import Share
from bench.quality.prices import paid
from bench.quality.targets import FIRST_STEP, Target, is_grounded, occurrences
from historyapp.core.context import Item

Serve = Callable[[Recorded, int, int], list[Item]]
"""A policy. Takes a session, the number of the next step, and the budget in tokens."""
DECISIONS = 16
"""The most steps of one session that are measured, spread evenly: long sessions must not outweigh others."""
_SPOTS = 200  # occurrences of a name in a context that are checked


@dataclass(slots=True)
class Tally:
    """Figures of one session. Each list has one value for each measured step."""

    recall: list[float] = field(default_factory=list)
    """The share of the identifiers that the step needs, like ``grounded``."""
    grounded: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    cached: list[int] = field(default_factory=list)
    openai: list[float] = field(default_factory=list)
    """US dollars for a million such requests, like ``anthropic``."""
    anthropic: list[float] = field(default_factory=list)
    over: int = 0
    """Contexts that exceeded the budget."""

    def share(self, figure: str) -> Share:
        values: list[float] = getattr(self, figure)
        return Share(sum(values), len(values))


def measured_steps(needs: dict[int, list[Target]]) -> list[int]:
    """The steps that are measured, of those that need earlier identifiers."""
    steps = sorted(needs)
    few = min(DECISIONS, len(steps))
    return [steps[(2 * number + 1) * len(steps) // (2 * few)] for number in range(few)]


def play(recorded: Recorded, serve: Serve, budget: int, needs: dict[int, list[Target]]) -> Tally:
    """Measures one session. Prices include instructions; the budget does not.

    What a provider has cached is the beginning that the context shares with that of the step before.
    """
    tally = Tally()
    fixed = fixed_cost(recorded)
    for step in measured_steps(needs):
        messages = serve(recorded, step, budget)
        sizes = list(map(cost_of, messages))
        before = serve(recorded, step - 1, budget) if step > FIRST_STEP else None
        repeated = 0 if before is None else fixed + _shared(before, messages, sizes)
        bill = paid(fixed + sum(sizes), repeated)
        tally.tokens.append(fixed + sum(sizes))
        tally.over += sum(sizes) > budget
        tally.cached.append(bill.cached)
        tally.openai.append(bill.openai)
        tally.anthropic.append(bill.anthropic)
        _look(tally, needs[step], messages)
    return tally


def _look(tally: Tally, targets: list[Target], messages: list[Item]) -> None:
    text = "\n".join(map(readable, messages))
    found = grounded = 0
    for target in targets:
        spots = occurrences(target.name, text)[:_SPOTS]
        found += bool(spots)
        grounded += bool(spots) and is_grounded(target, text, spots)
    tally.recall.append(found / len(targets))
    tally.grounded.append(grounded / len(targets))


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
