"""The interface of policies. A policy reads a session's past from its newest end and chooses a context."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Any, NamedTuple, Protocol, TypeVar

from historyapp.core.budget import RequestMeter
from historyapp.core.context import Context
from historyapp.core.conversation import InputMessage, Status
from historyapp.core.episodes import Episode
from historyapp.core.excerpts import Excerpt, ExcerptLine, FoundLine
from historyapp.core.settings import SessionSettings


class SummaryLike(Protocol):
    """The fields of a summary that contexts use."""

    @property
    def id(self) -> Any: ...
    @property
    def first_position(self) -> int: ...
    @property
    def last_position(self) -> int: ...
    @property
    def first_step(self) -> int: ...
    @property
    def last_step(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def key_points(self) -> Sequence[str]: ...


class Origin(NamedTuple):
    """The request in which an output was made."""

    sha256: str = ""
    """Of its canonical bytes without cache breakpoints. Empty if it contained everything live before it."""
    change: str = ""
    """Why its reasoning cannot be sent again, if that is known without the bytes."""
    is_other_model: bool = False
    """Whether the output is of a different model than the context."""


class Past(Protocol):
    """A session as of some position. Its iterators read as they are consumed, so a policy pays only for
    what it reads."""

    @property
    def steps(self) -> int:
        """The number of the newest live step; 0 if there is none."""
        ...

    @property
    def instruction(self) -> str | None:
        """The current system instruction."""
        ...

    @property
    def notebook(self) -> str | None:
        """The current memory notebook."""
        ...

    @property
    def first_input(self) -> InputMessage | None:
        """The oldest live input; None if there is none."""
        ...

    def episodes_newest_first(self, last: int | None = None, first: int = 1) -> Iterator[Episode]:
        """Live steps from number ``last`` (null: the newest) down to ``first``, with bodies and summaries."""
        ...

    def inputs_newest_first(self, before: int | None = None) -> Iterator[InputMessage]:
        """Live inputs before a position, the newest first, and results recorded before the first step."""
        ...

    def summaries_newest_first(self, before: int) -> Iterator[SummaryLike]:
        """The applicable summaries that end before a position, the latest end first. If two end
        at the same position, the one of the higher level comes first."""
        ...

    def origins(self, outputs: Sequence[int], format: str, model: str) -> Mapping[int, Origin]:
        """The requests in which live outputs were made, by position.

        Args:
            format: the format of the context.
            model: the model that the context is for; empty if unknown.
        """
        ...


class RangeSummary(NamedTuple):
    """A summary of several steps."""

    id: str
    first_step: int
    line: ExcerptLine


class StepOutline(NamedTuple):
    """A step from its row, without bodies."""

    number: int
    first_position: int
    last_position: int
    status: Status
    excerpt: Excerpt
    summary: ExcerptLine | None = None
    """The summary of this step only, if there is one."""
    digest: RangeSummary | None = None
    """The summary of several steps that end with this one, if there is one."""


class OutlinedPast(Past, Protocol):
    """A past that can read its steps without bodies. Each method is one query."""

    def outline(self, first: int, last: int) -> list[StepOutline]:
        """Live steps ``first`` to ``last`` (both included), oldest first."""
        ...

    def bodies(self, steps: Sequence[StepOutline]) -> list[Episode]:
        """Adjacent steps with their bodies, without summaries."""
        ...

    def lines_with(self, names: Sequence[tuple[StepOutline, str]]) -> list[FoundLine | None]:
        """For each step and name, the first line of the step's results that contains the name."""
        ...


@dataclass(frozen=True, slots=True)
class RequestExtras:
    """What a caller adds to one request. It is not stored."""

    tools: Sequence[Mapping[str, Any]] = ()
    """Tool definitions. Policies only need their cost, because formats render them."""
    live_screen: str = ""
    model: str = ""
    """The model that the context is for; empty if unknown."""
    keeps_all_reasoning: bool = False
    """Whether reasoning is sent regardless of what precedes it, as snapshots from before 2026-11-26 need."""
    fills_newest: bool = True
    """Whether a clipped newest step takes the room that notes leave. Snapshots from before 2026-11-29 need
    False."""
    reads_few_names: bool = False
    """Whether at most 200 names of a step that are in none of its lines are read, as snapshots from before
    2026-11-30 need."""
    scores_as_earlier: bool = False
    """Whether lines and names are scored as snapshots until 2026-11-30 need: see
    :mod:`historyapp.core.policies.scores`."""
    notes_as_earlier: bool = False
    """Whether notes have only lines of excerpts, as snapshots until 2026-11-30 need: see
    :mod:`historyapp.core.policies.sources`."""


NO_EXTRAS = RequestExtras()
MAX_HIDDEN = 20
"""If one summary hides more others than this, a new query skips the rest of them."""
AnySummary = TypeVar("AnySummary", bound=SummaryLike)


class Policy(Protocol):
    name: str

    def choose(
        self,
        past: OutlinedPast,
        settings: SessionSettings,
        meter: RequestMeter,
        extras: RequestExtras = NO_EXTRAS,
    ) -> Context:
        """The context and its manifest.

        Raises:
            Invalid: when not even the pinned part fits the budget; ``smallest`` is one that works.
        """
        ...


Unit = Episode | InputMessage
"""A step, or an input between two steps."""


def newest_first(past: Past) -> Iterator[Unit]:
    """All live steps and inputs. An input that arrived during a step comes after the step."""
    return merge(past.episodes_newest_first(), past.inputs_newest_first(), key=unit_position, reverse=True)


def unit_position(unit: Unit) -> int:
    return unit.first_position if isinstance(unit, Episode) else unit.position


def visible_summaries(read: Callable[[int], Iterator[AnySummary]], end: int) -> Iterator[AnySummary]:
    """Summaries that end before a position, newest first, without those that a higher level hides.

    Args:
        read: returns the summaries that end before a position, in the order of
            :meth:`Past.summaries_newest_first`.
    """
    while True:
        hidden = 0
        for summary in read(end):
            if summary.last_position < end:
                yield summary
                end, hidden = summary.first_position, 0
            else:
                hidden += 1
            if hidden > MAX_HIDDEN:
                break
        else:
            return
