"""Takes: the parts that rewinds cut off. They stay readable with ``as_of`` a position before the rewind."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Min

from historyapp.core.json import load_dumped
from historyapp.core.lineage import Lineage, Span
from historyapp.core.projection import Totals
from historyapp.core.usage import NO_CALLS, ModelTotals
from historyapp.models.entries import Entry
from historyapp.models.fields import as_uuid, at_places, read_text, uuid_value
from historyapp.models.history import History
from historyapp.models.sessions import Session
from historyapp.models.sql import as_aware, fetch_all

NEWEST = 50
"""The maximum number of rewinds to read, newest first: a session may have thousands."""
MAX_SPANS = 2_000
"""The maximum number of spans that these rewinds cut off together. Older rewinds are not read."""
MAX_CUTS = 1_000
"""The maximum number of rewinds whose totals are read. 1,000 take 2 ms, with the usage of two models 8 ms."""
_NO_MODELS: Mapping[str, Sequence[int]] = {}
# In SQL, because most pages of a session read 50 rewinds: as instances they took half of the page's queries.
_REWINDS = (
    "SELECT position, created_at, body FROM historyapp_entry "
    "WHERE session_id = %s AND kind = 'rewind' AND position <= %s ORDER BY position DESC LIMIT %s"
)
_CUTS = """
SELECT kept.totals, cut.totals FROM historyapp_entry AS kept
LEFT JOIN historyapp_entry AS cut ON cut.session_id = kept.session_id AND cut.position = kept.position - 1
WHERE kept.session_id = %s AND kept.kind = 'rewind' AND kept.position <= %s
ORDER BY kept.position DESC LIMIT %s
"""
_ENDS = "SELECT session_id, position, kind, totals FROM historyapp_entry WHERE "


class RewindRow(NamedTuple):
    """The columns of a rewind entry that lists show."""

    position: int
    created_at: datetime
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Take:
    """A part of a session that was live and no longer is."""

    rewind: RewindRow
    """The rewind that cut it off."""
    hidden: Lineage
    """The spans of its entries that are not live."""
    after_step: int
    """The number of the live step before it, or 0."""
    last_step: int
    """The number of its last step. ``after_step`` if it has no steps of its own."""
    as_of: int
    """A position at which all of it was live."""
    steps: int
    """The number of its own steps: ``last_step`` minus ``after_step``."""


def takes(history: History) -> list[Take]:
    """The takes that branch off the history, oldest rewind first. At most two queries.

    Takes of a take are returned if the history is read as of that take. A restored take is live again and is
    not returned. Empty if the reader of the history may not see takes.
    """
    if not history.visible.takes:
        return []
    return _takes_of(history, _newest_rewinds(history.session, history.as_of, NEWEST))


def takes_up_to(history: History, step: int) -> list[Take]:
    """The takes of a history, or none if it is certain that each branches off after ``step``.

    In a session with more rewinds than :data:`NEWEST`, most steps come before all takes. Reading the takes
    would take a fifth of the time of a list of such steps.
    """
    if not history.visible.takes:
        return []
    newest = _newest_rewinds(history.session, history.as_of, NEWEST)
    following = history.rows(step + 1, step + 1) if len(newest) > NEWEST else []
    if not following:
        return _takes_of(history, newest)
    # If each of the newest rewinds kept the next step, and none restored what was cut off before them, this
    # step has been live since then or since it was appended, and so has everything before it.
    oldest, *others = newest
    then = history.session.stored_lineage(oldest.body)
    targets = {other.body["to_position"] for other in others}
    was_kept = min(targets) >= following[0].first_position
    if was_kept and all(target >= oldest.position or then.session_at(target) for target in targets):
        return []
    return _takes_of(history, newest)


def _takes_of(history: History, newest: list[RewindRow]) -> list[Take]:
    """The takes that the newest rewinds cut off."""
    cuts: dict[int, tuple[RewindRow, Lineage]] = {}
    starts: list[tuple[int, int]] = []  # the first position and the key of each cut, in order
    if newest:  # load the newest blocks of live spans together, because each rewind needs one of them
        deque(islice(history.lineage.between(1, history.lineage.last, newest_first=True), NEWEST), maxlen=0)
    for rewind, before, cut in _newest_cuts(_with_lineages(history.session, newest, NEWEST)):
        if hidden := _hidden(before, cut, history.lineage):
            # A part that was cut off, restored and cut off again belongs to the newest rewind.
            start = bisect_left(starts, (hidden.newest[0].first, 0))
            while start < len(starts) and starts[start][0] <= hidden.last:
                if _is_other(cuts[starts[start][1]][1], hidden):
                    start += 1
                else:
                    del cuts[starts.pop(start)[1]]
            insort(starts, (hidden.newest[0].first, rewind.position))
            cuts[rewind.position] = rewind, hidden
    where, values = at_places({key for _, hidden in cuts.values() for key in _ends(hidden)})
    steps = {
        (str(as_uuid(session)), position): (kind, load_dumped(totals).get("steps", 0))
        for session, position, kind, totals in (fetch_all(_ENDS + where, values) if cuts else ())
    }
    all_takes: list[Take] = []
    for rewind, hidden in cuts.values():
        (kind, after_step), (_, last_step) = (steps[key] for key in _ends(hidden))
        after_step -= kind == "model_output"
        all_takes.append(
            Take(rewind, hidden, after_step, last_step, rewind.position - 1, last_step - after_step)
        )
    return all_takes


class CutTotals(NamedTuple):
    """What rewinds did to the totals, added up. The difference is the totals of all that was cut off, takes
    of takes included: a rewind that restores entries subtracts theirs."""

    before: Totals
    """The sums before the rewinds: only the steps, the cost and the usage of each model."""
    after: Totals
    is_complete: bool
    """Whether these are all rewinds."""


def cut_totals(history: History) -> CutTotals:
    """The totals before and after the newest :data:`MAX_CUTS` rewinds. At most two queries.

    Empty if the reader of the history may not see takes.
    """
    session, up_to = history.session, history.as_of
    if not history.visible.takes or session.tail_start == session.fork_position + 1:
        return CutTotals(Totals(), Totals(), is_complete=True)
    newest = session.head if up_to is None else up_to
    rows = fetch_all(_CUTS, [uuid_value(session.pk), newest, MAX_CUTS + 1])
    before = [load_dumped(cut) for _, cut in rows[:MAX_CUTS] if cut is not None]
    if len(before) < len(rows[:MAX_CUTS]):  # the oldest one followed no entry of its own
        shared = Entry.objects.defer("body", "metadata").newest(session.shared_lineage)
        before.append(shared.totals if shared else {})
    after = [load_dumped(kept) for kept, _ in rows[:MAX_CUTS]]
    return CutTotals(_added(before), _added(after), is_complete=len(rows) <= MAX_CUTS)


def _added(parts: Sequence[Mapping[str, Any]]) -> Totals:
    """The sums of stored totals. They are added as stored, because reading a thousand takes longer."""
    models = dict[str, list[int]]()
    for part in parts:
        for name, used in part.get("models", _NO_MODELS).items():
            sums = models.setdefault(name, [0] * len(NO_CALLS))
            for index, count in enumerate(used):
                sums[index] += count
    return Totals(
        steps=sum([part.get("steps", 0) for part in parts]),
        cost=sum([part.get("cost", 0) for part in parts]),
        models={name: ModelTotals(*sums) for name, sums in models.items()},
    )


def _newest_cuts(
    lineages: list[tuple[RewindRow, Lineage, Lineage]],
) -> list[tuple[RewindRow, Lineage, Lineage]]:
    """The newest rewinds, each with the lineage before it and the part that it cut off, oldest first.

    At least one, and as many as have :data:`MAX_SPANS` together.
    """
    cuts, spans = list[tuple[RewindRow, Lineage, Lineage]](), 0
    for rewind, before, after in reversed(lineages):
        cut = before.branch_off(after)
        spans += len(cut.newest)
        if cuts and spans > MAX_SPANS:
            break
        cuts.append((rewind, before, cut))
    return cuts[::-1]


def newest_rewind(session: Session) -> Entry | None:
    """The session's newest entry if it is a rewind, otherwise None."""
    if session.tail_start != session.head + 1 or session.head <= session.fork_position:
        return None
    rewind: Entry | None = session.rewinds().filter(position=session.head).first()
    return rewind


def rewinds(
    session: Session, up_to: int | None = None, limit: int = NEWEST
) -> list[tuple[RewindRow, Lineage, Lineage]]:
    """The newest rewinds up to a position, oldest first, each with the lineage before and after it.

    One query, or none if there are no rewinds.
    """
    return _with_lineages(session, _newest_rewinds(session, up_to, limit), limit)


def _with_lineages(
    session: Session, entries: list[RewindRow], limit: int
) -> list[tuple[RewindRow, Lineage, Lineage]]:
    """The newest ``limit`` of some rewinds, each with the lineage before and after it."""
    if not entries:
        return []
    lineages = [session.stored_lineage(rewind.body) for rewind in entries]
    starts: list[tuple[int, Lineage]] = []
    if len(entries) <= limit:
        starts.append((session.fork_position, session.shared_lineage))
    starts += [(rewind.position, lineage) for rewind, lineage in zip(entries, lineages, strict=True)]
    stops = list(zip(entries, lineages, strict=True))[0 if len(entries) <= limit else 1 :]
    return [
        (rewind, session.extended(before, position + 1, rewind.position - 1), after)
        for (position, before), (rewind, after) in zip(starts, stops, strict=False)
    ]


def _newest_rewinds(session: Session, up_to: int | None, limit: int) -> list[RewindRow]:
    """The newest rewinds, oldest first, and the one before them. No query if there are none."""
    if session.tail_start == session.fork_position + 1:
        return []
    newest = session.head if up_to is None else up_to
    rows = fetch_all(_REWINDS, [uuid_value(session.pk), newest, limit + 1])[::-1]
    return [RewindRow(position, as_aware(at), load_dumped(read_text(body))) for position, at, body in rows]


def _hidden(before: Lineage, cut: Lineage, live: Lineage) -> Lineage | None:
    """The spans that a rewind cut off and that are not live, if they branch off the live history.

    Args:
        before: what was live before the rewind.
        cut: its end, which the rewind cut off.
    """
    # All entries before a live one are live, so only the first one needs to be looked up.
    is_restored = cut.newest and live.contains(cut.newest[0].session, cut.newest[0].first)
    hidden = before.branch_off(live) if is_restored else cut
    if not hidden.newest:
        return None
    stem = before.cut(hidden.newest[0].first - 1)
    branches_off = not stem.newest or live.contains(stem.newest[-1].session, stem.last)
    return hidden if branches_off else None


def _is_other(part: Lineage, hidden: Lineage) -> bool:
    """Whether a part has entries that are not hidden by a later rewind."""
    first, last = part.newest[0], part.newest[-1]
    is_apart = last.last < hidden.newest[0].first or hidden.last < first.first
    # If both ends are hidden, everything between them is: the entries before an entry never change.
    return is_apart or not (
        hidden.contains(first.session, first.first) and hidden.contains(last.session, last.last)
    )


def _ends(part: Lineage) -> tuple[tuple[str, int], tuple[str, int]]:
    first, last = part.newest[0], part.newest[-1]
    return (first.session, first.first), (last.session, last.last)


def as_begun(sessions: Iterable[Session]) -> set[UUID]:
    """Those that are no forks, and if they were rewound, end as before their first rewind: rewinds may be
    undone. The transcripts of all others ended with other steps.

    Takes two queries if a session's newest entry is a rewind.
    """
    sessions = list(sessions)
    begun = {session.pk for session in sessions if session.tail_start == 1}
    rewound = {
        session.pk: session
        for session in sessions
        if session.pk not in begun and session.forked_from_id is None and session.tail_start > session.head
    }
    if not rewound:
        return begun
    stored = dict(Session.objects.filter(pk__in=rewound).values_list("pk", "closed_spans"))
    rewinds = Entry.objects.filter(session__in=rewound, kind="rewind").order_by()
    for id, first in rewinds.values_list("session").annotate(Min("position")):
        live = rewound[id].stored_lineage(stored[id])
        if live.newest == (Span(str(id), 1, first - 1),) and not live.older:
            begun.add(id)
    return begun
