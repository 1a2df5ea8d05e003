"""Builds a policy's contexts before some steps of a session, and measures what they contain and cost."""

from collections.abc import Callable
from dataclasses import dataclass, field

from bench.quality.corpus import Recorded
from bench.quality.costs import cost_of, fixed_cost, tokens_of
from bench.quality.prices import paid
from historyapp.core.context import Item
from historyapp.core.evaluation.intervals import SessionTotal
from historyapp.core.evaluation.measure import ChosenContext, TokenCounts, measure
from historyapp.core.evaluation.targets import FIRST_STEP, NeededIdentifier, measured_steps

Serve = Callable[[Recorded, int, int], list[Item]]
"""A policy. Takes a session, the number of the next step, and the budget in tokens."""


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

    def share(self, figure: str) -> SessionTotal:
        values: list[float] = getattr(self, figure)
        return SessionTotal(sum(values), len(values))


def play(recorded: Recorded, serve: Serve, budget: int, needs: dict[int, list[NeededIdentifier]]) -> Tally:
    """Measures one session. Prices include instructions; the budget does not.

    What a provider has cached is the beginning that the context shares with that of the step before.
    """
    tally = Tally()
    fixed = fixed_cost(recorded)
    count = TokenCounts(cost_of, tokens_of)
    for step in measured_steps(needs):
        messages = serve(recorded, step, budget)
        before = ChosenContext(serve(recorded, step - 1, budget), fixed) if step > FIRST_STEP else None
        found = measure(needs[step], ChosenContext(messages, fixed), before, count)
        bill = paid(found.tokens, found.repeated)
        tally.recall.append(found.recall)
        tally.grounded.append(found.grounded)
        tally.tokens.append(found.tokens)
        tally.over += found.tokens - fixed > budget
        tally.cached.append(bill.cached)
        tally.openai.append(bill.openai)
        tally.anthropic.append(bill.anthropic)
    return tally
