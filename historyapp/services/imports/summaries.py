"""Stores a transcript's summaries in bulk, with a few queries for all of them."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from uuid import UUID

from django.utils import timezone

from historyapp.core.batches import batches
from historyapp.core.importers.base import AddSummary
from historyapp.core.json_memory import memory_of
from historyapp.core.lineage import Lineage
from historyapp.core.projection import Totals
from historyapp.core.text import clean
from historyapp.models import Entry, Session, Summary
from historyapp.models.summaries import MAX_SAME_END
from historyapp.services.summaries import increase_revisions

AT_ONCE = 100
"""Summaries that one transaction stores. With many rewinds, each takes milliseconds to locate."""
MAX_BYTES = 1 << 22
"""Bytes in memory of the summaries that one transaction stores. A single one may be larger."""
_EntryKey = tuple[str, int]
"""A session and the position of one of its own entries."""


def in_parts(summaries: Sequence[AddSummary]) -> Iterator[list[AddSummary]]:
    """The summaries for one transaction each."""
    for start in range(0, len(summaries), AT_ONCE):
        yield from batches(summaries[start : start + AT_ONCE], _memory, MAX_BYTES)


def _memory(summary: AddSummary) -> int:
    return memory_of(summary.text) + sum(map(memory_of, summary.key_points))


class StoredSummaries:
    """The stored summaries of a session, as far as an import needs them. It does not store them again.

    They are read before the transaction, because their texts can be long. In the transaction, only those are
    read that were stored meanwhile.
    """

    def __init__(self) -> None:
        self._ids = set[UUID]()
        self._keys = set[tuple[int, int, str, bytes]]()
        self._ends = Counter[_EntryKey]()
        """The numbers of summaries that end at the last entries of the ranges that were read last."""
        self._revision = -1

    def is_current(self, session: Session) -> bool:
        """Whether nobody has stored a summary since the last :meth:`read`."""
        return self._revision == session.revision

    def read(self, session: Session, summaries: Sequence[AddSummary]) -> None:
        """Reads the stored summaries of the same ranges, except those that it has read before."""
        self._revision = session.revision
        self._ends.clear()
        located = _locate(session, summaries)
        ranges = {(summary.first_position, summary.last_position) for summary, *_ in located}
        last_keys = {(owner, summary.last_position) for summary, _, (owner, _) in located}
        new = list[UUID]()
        for owner, ends in _by_session(last_keys).items():
            stored = Summary.objects.filter(session_id=UUID(owner), last_position__in=ends, made_in=session)
            for pk, first, last in stored.values_list("pk", "first_position", "last_position"):
                self._ends[owner, last] += 1
                if (first, last) in ranges and pk not in self._ids:
                    new.append(pk)
        self._ids.update(new)
        for summary in Summary.objects.read(new):
            self._keys.add(
                (summary.first_position, summary.last_position, summary.strategy, _digest(summary.text))
            )

    def add(self, summary: AddSummary, owner: str) -> bool:
        """Adds a summary that ends in an entry of the session ``owner``. Returns whether to store it.

        It is not stored again, nor if :data:`~historyapp.models.summaries.MAX_SAME_END` end there.
        """
        key = summary.first_position, summary.last_position, summary.strategy, _digest(summary.text)
        end = owner, summary.last_position
        if key in self._keys or self._ends[end] >= MAX_SAME_END:
            return False
        self._keys.add(key)
        self._ends[end] += 1
        return True


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def with_positions(summary: AddSummary, first: int, last: int, made_at: int | None) -> AddSummary:
    """The summary at positions of the stored session, with its strategy and model as they are stored."""
    strategy, model = clean(summary.strategy)[:50] or "manual", clean(summary.model)[:200]
    return replace(
        summary,
        first_position=first,
        last_position=last,
        made_at=made_at,
        strategy=strategy,
        model=model,
    )


def write_summaries(
    session: Session, summaries: Sequence[AddSummary], tokens: Mapping[str, int], stored: StoredSummaries
) -> None:
    """Stores up to :data:`AT_ONCE` summaries of a session that the caller has locked.

    Skips summaries that already exist, those of ranges that are not in the session, and those beyond
    :data:`~historyapp.models.summaries.MAX_SAME_END` with the same end.

    Args:
        summaries: from :func:`with_positions`.
        tokens: the tokens of the summaries by their texts. Counting them takes too long for a transaction.
        stored: has read the stored summaries of the same ranges before the transaction.
    """
    if not stored.is_current(session):
        stored.read(session, summaries)
    located = _locate(session, summaries)
    entries: dict[_EntryKey, Entry] = {}
    for owner, positions in _by_session({key for _, *keys in located for key in keys}).items():
        rows = Entry.objects.filter(session_id=UUID(owner), position__in=positions)
        entries |= {(owner, row.position): row for row in rows.only("position", "totals", "tokens")}
    new: list[Summary] = []
    for summary, first, last in located:
        if stored.add(summary, last[0]):
            new.append(_new_summary(session, summary, (entries[first], entries[last]), tokens[summary.text]))
    if new:
        Summary.objects.bulk_create(new, batch_size=500)
        increase_revisions(session.pk, {summary.session_id for summary in new})


def _locate(
    session: Session, summaries: Sequence[AddSummary]
) -> list[tuple[AddSummary, _EntryKey, _EntryKey]]:
    """The summaries whose ranges are in the session, in the given order, each with its first and last
    entry."""
    rewinds = list(session.rewinds().order_by("position").values_list("position", flat=True))
    located: dict[int, tuple[AddSummary, _EntryKey, _EntryKey]] = {}
    lineage_end, lineage = 0, Lineage()
    for number, summary in sorted(enumerate(summaries), key=lambda pair: pair[1].last_position):
        if not 1 <= summary.first_position <= summary.last_position <= session.head:
            continue
        # The lineage that contains the range ends at the next rewind, or at the head. It is kept for the next
        # summary.
        index = bisect_right(rewinds, summary.last_position)
        end = rewinds[index] - 1 if index < len(rewinds) else session.head
        if end != lineage_end:
            lineage_end, lineage = end, session.lineage(end)
        first = _entry_at(lineage, summary.first_position)
        last = _entry_at(lineage, summary.last_position)
        if first and last:
            located[number] = summary, first, last
    return [located[number] for number in sorted(located)]


def _entry_at(lineage: Lineage, position: int) -> _EntryKey | None:
    """The entry at a position of the lineage, or the nearest entry before it."""
    owner = lineage.session_at(position)
    if owner is None:
        position = lineage.cut(position).last
        owner = lineage.session_at(position)
    return (owner, position) if owner else None


def _by_session(keys: set[_EntryKey]) -> dict[str, list[int]]:
    by_session = defaultdict[str, list[int]](list)
    for session, position in keys:
        by_session[session].append(position)
    return by_session


def _new_summary(
    session: Session, operation: AddSummary, ends: tuple[Entry, Entry], tokens_after: int
) -> Summary:
    first, last = ends
    before, after = Totals.load(first.totals), Totals.load(last.totals)
    made_at = session.head if operation.made_at is None else max(operation.made_at, last.position)
    return Summary(
        session_id=last.session_id,
        made_in=session,
        made_at=min(made_at, session.head),
        first_position=operation.first_position,
        last_position=operation.last_position,
        first_step=max(1, before.steps),
        last_step=max(1, after.steps),
        level=operation.level,
        text=operation.text,
        key_points=list(operation.key_points),
        strategy=operation.strategy,
        model=operation.model,
        tokens_before=after.tokens - before.tokens + first.tokens,
        tokens_after=tokens_after,
        actor="import",
        created_at=operation.created_at or timezone.now(),
    )
