"""95 % intervals by bootstrap. Sessions are resampled, because decisions of one session are alike."""

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
    """The mean of all decisions of some sessions. NaN if there are none."""
    if not sessions:
        return Interval(*[float("nan")] * 3)
    totals, counts = [share.total for share in sessions], [share.decisions for share in sessions]
    means = sorted(
        sum(map(totals.__getitem__, drawn)) / max(1, sum(map(counts.__getitem__, drawn)))
        for drawn in _draws(len(sessions))
    )
    return Interval(mean(sessions), means[int(0.025 * DRAWS)], means[int(0.975 * DRAWS) - 1])


@lru_cache(4)
def _draws(count: int) -> list[list[int]]:
    """Indices of sessions. Every mean of as many sessions is computed for the same draws."""
    draw = random.Random(_SEED)  # noqa: S311
    return [draw.choices(range(count), k=count) for _ in range(DRAWS)]


def difference(these: Sequence[SessionTotal], those: Sequence[SessionTotal]) -> Interval:
    """The mean of the differences of two policies on the same decisions, paired by session."""
    pairs = zip(these, those, strict=True)
    return mean_interval([SessionTotal(one.total - other.total, one.decisions) for one, other in pairs])


def mean(sessions: Sequence[SessionTotal]) -> float:
    """The mean of all decisions; 0 if there are none."""
    return sum(share.total for share in sessions) / max(1, sum(share.decisions for share in sessions))
