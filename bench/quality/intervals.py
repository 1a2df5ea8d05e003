"""95 % intervals by bootstrap: sessions are drawn again, because decisions of one session are alike."""

import random
from collections.abc import Sequence
from typing import NamedTuple

DRAWS = 2000
_SEED = 15


class Share(NamedTuple):
    """A sum over the decisions of one session, and their number."""

    total: float
    count: int


class Interval(NamedTuple):
    """A mean over decisions, and the ends of its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def mean_interval(sessions: Sequence[Share]) -> Interval:
    """The mean of all decisions of some sessions. NaN if there are none."""
    draw = random.Random(_SEED)
    means = sorted(mean(draw.choices(sessions, k=len(sessions))) for _ in range(DRAWS)) if sessions else []
    if not means:
        return Interval(*[float("nan")] * 3)
    return Interval(mean(sessions), means[int(0.025 * DRAWS)], means[int(0.975 * DRAWS) - 1])


def difference(these: Sequence[Share], those: Sequence[Share]) -> Interval:
    """The mean of the differences of two policies on the same decisions, paired by session."""
    pairs = zip(these, those, strict=True)
    return mean_interval([Share(one.total - other.total, one.count) for one, other in pairs])


def mean(sessions: Sequence[Share]) -> float:
    """The mean of all decisions; 0 if there are none."""
    return sum(share.total for share in sessions) / max(1, sum(share.count for share in sessions))
