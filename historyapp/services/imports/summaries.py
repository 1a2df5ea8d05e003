"""Writing the summaries that a transcript holds: many at once, with a few queries for all of them."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from django.utils import timezone

from historyapp.core.importers.base import Summarised
from historyapp.core.lineage import Lineage
from historyapp.core.text import clean
from historyapp.core.tokens import count_tokens
from historyapp.models import Entry, Session, Summary
from historyapp.services.summaries import touch

_End = tuple[str, int]
"""A session and the position of one of its own entries."""


def write_summaries(session: Session, summaries: Sequence[Summarised]) -> None:
    """Writes summaries of a session that the caller has locked; a thousand at a time are not too many.

    One that is there already is left out, and so is one of a range that the session does not have: it would
    stand for nothing.

    Args:
        summaries: their positions are those of the session.
    """
    placed = _placed(session, [_fitting(summary) for summary in summaries])
    entries = _entries({end for _, *ends in placed for end in ends})
    known = _known(session, [(summary, last) for summary, _, last in placed])
    new: list[Summary] = []
    for summary, first, last in placed:
        if (key := _key(summary)) not in known:
            known.add(key)
            new.append(_summary(session, summary, entries[first], entries[last]))
    if new:
        Summary.objects.bulk_create(new, batch_size=500)
        touch(session.pk, {summary.session_id for summary in new})


def _fitting(told: Summarised) -> Summarised:
    """Names as the database takes them."""
    return replace(told, strategy=clean(told.strategy)[:50] or "manual", model=clean(told.model)[:200])


def _placed(session: Session, summaries: Sequence[Summarised]) -> list[tuple[Summarised, _End, _End]]:
    """The summaries whose ranges the session has, in their order, each with its first and last entry."""
    paths, placed = _Paths(session), dict[int, tuple[Summarised, _End, _End]]()
    for number, summary in sorted(enumerate(summaries), key=lambda pair: pair[1].last_position):
        if 1 <= summary.first_position <= summary.last_position <= session.head:
            path = paths.to(summary.last_position)
            first, last = (_newest(path, end) for end in (summary.first_position, summary.last_position))
            if first and last:
                placed[number] = summary, first, last
    return [placed[number] for number in sorted(placed)]


class _Paths:
    """The lineages that end at positions of a session, the newest kept: between two rewinds it only grows."""

    def __init__(self, session: Session) -> None:
        self._session = session
        rewinds = session.rewinds().order_by("position")
        self._rewinds = list(rewinds.values_list("position", flat=True))
        self._until, self._path = 0, Lineage()

    def to(self, position: int) -> Lineage:
        """What was live when the next rewind came after ``position``, or is now; without it, up to there."""
        place = bisect_right(self._rewinds, position)
        until = self._rewinds[place] - 1 if place < len(self._rewinds) else self._session.head
        if until != self._until:
            self._until, self._path = until, self._session.lineage(until)
        return self._path


def _newest(path: Lineage, position: int) -> _End | None:
    """The entry at a position of the path, or the one before it where that holds none."""
    owner = path.session_at(position)
    if owner is None:
        position = path.cut(position).last
        owner = path.session_at(position)
    return (owner, position) if owner else None


def _entries(ends: set[_End]) -> dict[_End, Entry]:
    """The entries at some ends, without their bodies."""
    found: dict[_End, Entry] = {}
    for session, positions in _by_session(ends).items():
        rows = Entry.objects.filter(session_id=UUID(session), position__in=positions)
        found |= {(session, row.position): row for row in rows.only("position", "totals", "tokens")}
    return found


def _known(session: Session, summaries: list[tuple[Summarised, _End]]) -> set[tuple[int, int, str, str]]:
    """Those that end where some of these do, and were written before."""
    known: set[tuple[int, int, str, str]] = set()
    lasts = {(owner, summary.last_position) for summary, (owner, _) in summaries}
    for owner, positions in _by_session(lasts).items():
        rows = Summary.objects.filter(session_id=UUID(owner), last_position__in=positions, made_in=session)
        known |= set(rows.values_list("first_position", "last_position", "strategy", "text"))
    return known


def _by_session(ends: set[_End]) -> dict[str, list[int]]:
    by_session = defaultdict[str, list[int]](list)
    for session, position in ends:
        by_session[session].append(position)
    return by_session


def _key(summary: Summarised) -> tuple[int, int, str, str]:
    return summary.first_position, summary.last_position, summary.strategy, summary.text


def _summary(session: Session, told: Summarised, first: Entry, last: Entry) -> Summary:
    before, after = first.running_totals, last.running_totals
    return Summary(
        session_id=last.session_id,
        made_in=session,
        made_at=session.head if told.made_at is None else min(max(told.made_at, last.position), session.head),
        first_position=told.first_position,
        last_position=told.last_position,
        first_step=max(1, before.steps),
        last_step=max(1, after.steps),
        level=told.level,
        text=told.text,
        key_points=list(told.key_points),
        strategy=told.strategy,
        model=told.model,
        tokens_before=after.tokens - before.tokens + first.tokens,
        tokens_after=count_tokens(told.text),
        actor="import",
        created_at=told.created_at or timezone.now(),
    )
