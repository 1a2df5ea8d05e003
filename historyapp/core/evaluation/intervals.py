"""95 % intervals by bootstrap. Sessions are resampled, because the decisions of one session are similar."""

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

DRAWS = 2000
_SEED = 15


class SessionTotal(NamedTuple):
    """A sum over the decisions of one session, and their number."""

    total: float
    decisions: int


class Interval(NamedTuple):
    """A mean over decisions, and the ends of its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def mean_interval(sessions: Sequence[SessionTotal]) -> Interval:
    """The mean over all decisions of the sessions, with its interval; NaN if there are none."""
    if not sessions:
        return Interval(*[float("nan")] * 3)
    totals, counts = [session.total for session in sessions], [session.decisions for session in sessions]
    means = sorted(
        sum(map(totals.__getitem__, indexes)) / max(1, sum(map(counts.__getitem__, indexes)))
        for indexes in _draws(len(sessions))
    )
    return Interval(mean(sessions), means[int(0.025 * DRAWS)], means[int(0.975 * DRAWS) - 1])


@lru_cache(4)
def _draws(count: int) -> list[list[int]]:
    """Drawn indices of sessions. Means over the same number of sessions use the same draws."""
    draw = random.Random(_SEED)  # noqa: S311
    return [draw.choices(range(count), k=count) for _ in range(DRAWS)]


def difference(a: Sequence[SessionTotal], b: Sequence[SessionTotal]) -> Interval:
    """The mean of ``a`` minus ``b``: two policies on the same decisions, paired by session."""
    pairs = zip(a, b, strict=True)
    return mean_interval([SessionTotal(in_a.total - in_b.total, in_a.decisions) for in_a, in_b in pairs])


def mean(sessions: Sequence[SessionTotal]) -> float:
    """The mean of all decisions; 0 if there are none."""
    return sum(session.total for session in sessions) / max(1, sum(session.decisions for session in sessions))
