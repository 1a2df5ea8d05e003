"""Find in a session: the steps and takes that contain a text, and the next and previous one."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from django.urls import reverse

from dashboard.location import Location
from historyapp.enqueue import request_text_index
from historyapp.models.takes import takes
from historyapp.models.text_search import MAX_HITS, Hit, TextSearch, in_steps

LISTED = 50
"""Steps that are listed with the text around the match."""


@dataclass(frozen=True, slots=True)
class StepHit:
    """A step that contains the text."""

    number: int
    hit: Hit
    """The first match in it."""
    times: int
    """How often the step contains the text."""


@dataclass(frozen=True, slots=True)
class TakeHit:
    """A step that contains the text and that a rewind cut off."""

    number: int
    hit: Hit
    address: str
    """The address of the step as of when it was live."""


@dataclass(frozen=True, slots=True)
class TextHits:
    """The steps that contain the text, in order."""

    location: Location
    steps: list[StepHit]
    after: int
    """The search began after this position."""
    more: int | None
    """The next search continues after this position; None if everything has been searched."""
    in_takes: list[TakeHit]
    """The first matches in takes."""
    is_indexed: bool
    """False while workers still build the index. Until then, one request searches a smaller part."""

    @property
    def numbers(self) -> list[int]:
        return [step.number for step in self.steps]

    @property
    def searched(self) -> tuple[int, int]:
        """The first and the last step that the search has covered, as far as the found steps show."""
        numbers = self.numbers or [0]
        first = numbers[0] if self.after else 1
        return first, self.location.steps if self.more is None else numbers[-1]

    @property
    def listed(self) -> list[StepHit]:
        """The steps to list. If there are many, only those around the playhead."""
        start = max(0, min(self.place - LISTED // 2, len(self.steps) - LISTED))
        return self.steps[start : start + LISTED]

    @property
    def place(self) -> int:
        """The number of steps with the text up to the step under the playhead, inclusive."""
        return bisect_right(self.numbers, self.location.step)

    @property
    def is_here(self) -> bool:
        """Whether the step under the playhead contains the text."""
        return self.place > 0 and self.numbers[self.place - 1] == self.location.step

    @property
    def current(self) -> StepHit | None:
        return self.steps[self.place - 1] if self.is_here else None

    @property
    def next(self) -> int | None:
        """The next step with the text; after the last one the first."""
        following = self.steps[self.place :] or ([] if self.more else self.steps[:1])
        return following[0].number if following else None

    @property
    def previous(self) -> int | None:
        """The previous step with the text; before the first one the last."""
        before = bisect_left(self.numbers, self.location.step)
        if not before and (self.after or self.more):
            return None
        return self.steps[before - 1].number if self.steps else None


def find_in(location: Location, after: int = 0) -> TextHits | None:
    """Searches for the location's text; None if there is no text, or the session has no steps.

    Args:
        after: the position after which to search.
    """
    if not location.find or not location.steps:
        return None
    result = TextSearch(location.history, location.find, with_takes=True).find(MAX_HITS, after)
    if not location.is_shared:  # people with a share link must not start background work
        request_text_index(result.unindexed)
    by_step = in_steps(result.hits, location.steps)
    steps = [
        StepHit(number, hits[0], sum(hit.match.times for hit in hits)) for number, hits in by_step.items()
    ]
    steps.sort(key=lambda step: step.number)
    return TextHits(
        location, steps, after, result.more, _in_takes(location, result.hits), not result.unindexed
    )


def _in_takes(location: Location, hits: list[Hit]) -> list[TakeHit]:
    """The first hits that are not live, one for each step, each as of the end of its take.

    A hit in a take of a take, or in a take that :func:`takes` no longer reads, is shown as of its own
    position.
    """
    hidden = {(hit.session, hit.match.step): hit for hit in reversed(hits) if not hit.live}
    if not hidden:
        return []
    session_takes = takes(location.history)
    hits_in_takes: list[TakeHit] = []
    if location.is_shared:
        hidden = {key: hit for key, hit in hidden.items() if key[0] == location.session.pk}
    for (session, number), hit in sorted(hidden.items(), key=lambda item: item[1].match.position)[:LISTED]:
        position = hit.match.position
        end_of_take = next(
            (take for take in session_takes if take.hidden.contains(str(session), position)), None
        )
        if end_of_take is not None and number <= end_of_take.last_step:
            address = f"{location.url}?as_of={end_of_take.as_of}&step={max(1, number)}"
        else:
            address = f"{reverse('session', args=[session])}?as_of={position}&step=-1"
        hits_in_takes.append(TakeHit(number, hit, f"{address}{location.find_parameter}"))
    return hits_in_takes
