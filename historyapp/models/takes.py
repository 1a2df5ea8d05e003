"""Takes: what rewinds cut off. It stays readable, as the session stood just before the rewind."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db import models

from historyapp.core.lineage import Lineage
from historyapp.models.entries import Entry
from historyapp.models.history import History
from historyapp.models.sessions import Session

NEWEST = 100
"""How many rewinds are looked through: a session of many thousand opens as fast as another."""


@dataclass(frozen=True, slots=True)
class Take:
    """A part of a session that was live once and is not now."""

    rewind: Entry
    """The entry that cut it off."""
    hidden: Lineage
    """Its entries that are not live."""
    after_step: int
    """The live step that it followed; 0 when it began the session."""
    last_step: int
    """The number of its last step while it was live; ``after_step`` when it holds no step of its own."""

    @property
    def steps(self) -> int:
        return self.last_step - self.after_step

    @property
    def entries(self) -> int:
        return len(self.hidden)

    @property
    def as_of(self) -> int:
        """The position at which all of it was live."""
        return int(self.rewind.position) - 1


def takes(history: History) -> list[Take]:
    """The takes that branch off the history, those cut off first coming first; at most two queries.

    Takes of takes are seen by looking at the session as of the outer one. One that has been restored is none.
    """
    cuts = _without_repeats(
        (rewind, hidden)
        for rewind, before in rewinds(history.session, history.as_of)
        if (hidden := _hidden(rewind, before, history.lineage))
    )
    ends = _entries({end for _, hidden in cuts for end in _ends(hidden)})
    return [_take(rewind, hidden, ends) for rewind, hidden in cuts]


def newest_rewind(session: Session) -> Entry | None:
    """The rewind that is the session's newest entry; None once something has been appended after it."""
    if session.tail_start != session.head + 1 or session.head <= session.fork_position:
        return None
    rewind: Entry | None = session.rewinds().filter(position=session.head).first()
    return rewind


def rewinds(session: Session, up_to: int | None = None, limit: int = NEWEST) -> list[tuple[Entry, Lineage]]:
    """The newest rewinds up to a position, oldest first, each with the lineage that it cut; one query."""
    known = session.rewinds().order_by("-position")
    if up_to is not None:
        known = known.filter(position__lte=up_to)
    found = list(known[: limit + 1])[::-1]
    starts: list[tuple[int, Lineage]] = []
    if len(found) <= limit:
        starts.append((session.fork_position, Lineage.of(session.fork_spans)))
    starts += [(rewind.position, Lineage.of(rewind.body["spans"])) for rewind in found]
    stops = found if len(found) <= limit else found[1:]
    return [
        (rewind, _grown(left, str(session.pk), position + 1, rewind.position - 1))
        for (position, left), rewind in zip(starts, stops, strict=False)
    ]


def _grown(left: Lineage, session: str, first: int, last: int) -> Lineage:
    return left.extend(session, first, last) if first <= last else left


def _hidden(rewind: Entry, before: Lineage, live: Lineage) -> Lineage | None:
    """What a rewind cut off and is not live, if that branches off the live history."""
    hidden = before.without(Lineage.of(rewind.body["spans"])).without(live)
    if not hidden.spans:
        return None
    stem = before.cut(hidden.spans[0].first - 1)
    branches_off = not stem.spans or live.session_at(stem.last) == stem.spans[-1].session
    return hidden if branches_off else None


def _without_repeats(cuts: Iterable[tuple[Entry, Lineage]]) -> list[tuple[Entry, Lineage]]:
    """A part that was cut off, restored and cut off again belongs to the newest rewind."""
    kept: list[tuple[Entry, Lineage]] = []
    for rewind, hidden in cuts:
        kept = [(older, part) for older, part in kept if part.without(hidden).spans]
        kept.append((rewind, hidden))
    return kept


def _ends(part: Lineage) -> tuple[tuple[str, int], tuple[str, int]]:
    first, last = part.spans[0], part.spans[-1]
    return (first.session, first.first), (last.session, last.last)


def _entries(keys: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Entry]:
    condition = models.Q(pk__in=[])
    for session, position in keys:
        condition |= models.Q(session_id=UUID(session), position=position)
    found = Entry.objects.filter(condition).defer("body", "metadata")
    return {(str(entry.session_id), entry.position): entry for entry in found}


def _take(rewind: Entry, hidden: Lineage, ends: dict[tuple[str, int], Entry]) -> Take:
    first, last = (ends[end] for end in _ends(hidden))
    after_step = first.running_totals.steps - (first.kind == "model_output")
    return Take(rewind, hidden, after_step, last.running_totals.steps)
