"""The size of the context over a run, in a bounded number of points."""

from dataclasses import dataclass, field

from historyapp.core.usage import MAX_MODELS

MAX_POINTS = 400
"""The maximum number of points. If there are more, each represents twice as many steps."""
MAX_COMPACTIONS = 100
MIN_LOSS, MIN_LOST_SHARE = 5_000, 0.1
"""A request is a loss if it is smaller than the one before by both: by tokens and by share."""


@dataclass(slots=True)
class Compaction:
    """The agent replaced its history by a summary."""

    step: int
    """The first step after it."""
    before: int
    """Tokens of the request before it. Like ``after``, 0 if unknown."""
    after: int


@dataclass(slots=True)
class ContextSizes:
    """The input tokens of model calls, by step."""

    stride: int = 1
    """The number of steps that one point represents."""
    points: list[tuple[int, int]] = field(default_factory=list)
    """Step and tokens of the largest request of every ``stride`` steps."""
    reported: bool = False
    """Whether the provider reported the sizes. Otherwise they are our count of the live entries."""
    newest: int = 0
    since_compaction: int = 0
    """Tokens of the entries since the last compaction, by our own count."""
    compactions: list[Compaction] = field(default_factory=list)
    more_compactions: int = 0
    losses: list[Compaction] = field(default_factory=list)
    """The first requests that were much smaller than the one before, without a compaction between them."""
    newest_model: str = ""
    windows: dict[str, int] = field(default_factory=dict)
    """The newest window that the agent recorded of each of the first models, in tokens."""
    is_compacted: bool = False
    """Whether a compaction precedes the next step."""
    is_partial: bool = False
    """Whether it removed single entries, so that the size after it cannot be estimated."""

    def compact(self, *, is_partial: bool = False) -> None:
        """Records a compaction. A transcript may contain it twice: as a debug entry and as a summary.

        Args:
            is_partial: whether it removed single entries, as OpenHands does.
        """
        self.is_compacted, self.is_partial = True, is_partial
        if not is_partial:
            self.since_compaction = 0

    def add(self, step: int, reported: int, model: str = "") -> None:
        """Adds the size of the request that led to a step.

        Args:
            reported: input tokens as the provider reported them; 0 if it did not.
            model: the model of the request. Each model counts tokens in its own way.
        """
        was_reported = self.reported  # before, sizes were estimated, which makes no loss
        if reported and not was_reported:
            self.reported, self.points, self.stride = True, [], 1
        if reported and was_reported and model == self.newest_model and not self.is_compacted:
            self._add_loss(Compaction(step, self.newest, reported))
        self.newest_model = model
        size = reported or (0 if self.reported else self.since_compaction)
        if self.is_compacted:
            after = reported if self.is_partial else size
            self.is_compacted = False
            if len(self.compactions) < MAX_COMPACTIONS:
                self.compactions.append(Compaction(step, self.newest, after))
            else:
                self.more_compactions += 1
        if size:
            self.newest = size
            self._add_point(step, size)

    def add_window(self, model: str, window: int) -> None:
        """Adds the model's window as it is recorded with a step; 0 if it is not."""
        if window and (model in self.windows or len(self.windows) < MAX_MODELS):
            self.windows[model] = window

    def _add_loss(self, change: Compaction) -> None:
        lost = change.before - change.after
        if lost >= max(MIN_LOSS, MIN_LOST_SHARE * change.before) and len(self.losses) < MAX_COMPACTIONS:
            self.losses.append(change)

    def _add_point(self, step: int, size: int) -> None:
        points = self.points
        if points and (points[-1][0] - 1) // self.stride == (step - 1) // self.stride:
            points[-1] = max(points[-1], (step, size), key=lambda point: point[1])
            return
        points.append((step, size))
        if len(points) > MAX_POINTS:
            self.stride *= 2
            largest: dict[int, tuple[int, int]] = {}
            for point in points:
                slot = (point[0] - 1) // self.stride
                largest[slot] = max(largest.get(slot, point), point, key=lambda point: point[1])
            self.points = list(largest.values())
