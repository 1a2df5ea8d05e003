"""An index of the identifiers in the log, so that searching for a name does not read the log.

The index is updated after the log (``historyapp.services.names.index``), not by appends. Its places are
sorted numbers (``historyapp.core.name_pages``) in pages. Each update adds a run of pages. Runs of similar
size are merged, so there are few of them at any length.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Literal, NamedTuple, get_args
from uuid import UUID

from django.db import models
from django.db.models import Q

from historyapp.core.lineage import Lineage, Span
from historyapp.core.name_pages import GROUPS, Group, group_at, place_of, position_of, unpack_places
from historyapp.core.origins import VERSION
from historyapp.models.entries import Entry, in_spans
from historyapp.models.sessions import Session
from historyapp.models.sql import fetch_all

MAX_SPANS = 60
"""The maximum number of spans to search, newest first. A session without rewinds and forks has one."""
Flag = Literal["unseen", "gone"]
"""``unseen``: files that had not occurred before. ``gone``: names that occurred only in compacted entries."""
FLAGS: tuple[Flag, ...] = get_args(Flag)
MAX_FLAGGED = 2_000
"""The maximum number of steps with a flag to read."""
_PROBES_AT_ONCE = 400
_PLACES_AT_ONCE = 100
_PAGES = """
WITH wanted(place) AS (VALUES {probes}), found AS (
    SELECT DISTINCT r.id AS run, COALESCE(
        (SELECT MAX(first) FROM historyapp_namepage p WHERE p.run_id = r.id AND p.first <= wanted.place),
        (SELECT MIN(first) FROM historyapp_namepage p WHERE p.run_id = r.id)
    ) AS first
    FROM wanted, historyapp_namerun r WHERE r.index_id = {index} AND r.is_live
)
SELECT found.run, found.first, page.places,
    (SELECT MIN(first) FROM historyapp_namepage p WHERE p.run_id = found.run AND p.first > found.first),
    NOT EXISTS (SELECT 1 FROM historyapp_namepage p WHERE p.run_id = found.run AND p.first < found.first)
FROM found JOIN historyapp_namepage page ON page.run_id = found.run AND page.first = found.first
"""


class NameIndex(models.Model):
    """The indexed part of a session's own entries."""

    session = models.OneToOneField(Session, models.CASCADE, related_name="name_index")
    position = models.PositiveIntegerField(default=0)
    """Own entries up to this position are in the index."""
    unread = models.PositiveIntegerField(default=0)
    """The first entry that is only partly in the index, or 0."""
    version = models.PositiveSmallIntegerField(default=1)
    """The version of the rules, see :data:`historyapp.core.origins.VERSION`. New indexes state it: a
    default that changes with the rules would need a migration each time."""

    def __str__(self) -> str:
        return f"names up to {self.position}"


class NameRun(models.Model):
    """Pages with ascending places."""

    index = models.ForeignKey(NameIndex, models.CASCADE, related_name="runs")
    size = models.PositiveIntegerField()
    """The number of its places."""
    is_live = models.BooleanField(default=True)
    """Whether searches read it. A merged run is written in several transactions and is live when complete."""
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.size} places"


class NamePage(models.Model):
    """Some places of names, see :func:`historyapp.core.name_pages.pack_places`."""

    pk = models.CompositePrimaryKey("run", "first")
    run = models.ForeignKey(NameRun, models.CASCADE, related_name="pages", db_index=False)
    first = models.BigIntegerField()
    """The first of its places."""
    places = models.BinaryField()

    def __str__(self) -> str:
        return f"places from {self.first}"


class StepNames(models.Model):
    """A step that acted on names that had never been in its context, or were no longer in it.

    Other steps have no row.
    """

    pk = models.CompositePrimaryKey("index", "position")
    index = models.ForeignKey(NameIndex, models.CASCADE, related_name="steps", db_index=False)
    position = models.PositiveIntegerField()
    """The position of the step's output."""
    number = models.PositiveIntegerField()
    unseen = models.PositiveSmallIntegerField(default=0)
    """The number of files that had not occurred before."""
    gone = models.PositiveSmallIntegerField(default=0)
    """The number of files, URLs and hashes that occurred only in compacted entries."""

    def __str__(self) -> str:
        return f"step {self.number}"


class KeyPlaces(NamedTuple):
    """The first and last position of a key in some spans, by group. None if the group does not have it."""

    first: tuple[int | None, ...]
    last: tuple[int | None, ...]

    @property
    def earliest(self) -> int:
        return min(position for position in self.first if position is not None)

    @property
    def newest(self) -> int:
        return max(position for position in self.last if position is not None)

    def joined(self, other: "KeyPlaces") -> "KeyPlaces":
        """The places in the spans of either."""
        first = (tuple(filter(None, pair)) for pair in zip(self.first, other.first, strict=True))
        last = (tuple(filter(None, pair)) for pair in zip(self.last, other.last, strict=True))
        return KeyPlaces(
            tuple(min(pair, default=None) for pair in first), tuple(max(pair, default=None) for pair in last)
        )


Spans = Sequence[tuple[int, Span]]
"""Spans with the ids of their indexes, newest first."""


class _Page(NamedTuple):
    first: int
    places: list[int]
    after: int | None
    """The first place of the next page."""
    is_first: bool

    def covers(self, place: int) -> bool:
        """Whether the place, if stored, is in this page."""
        return (self.is_first or self.first <= place) and (self.after is None or place < self.after)


class Unsaved(NamedTuple):
    """Places that are not stored yet, for searches that need them now."""

    name_index: NameIndex
    """Its position includes the unsaved places."""
    places: Sequence[int]
    """Ascending."""


class PlaceReader:
    """Finds the places nearest to a number in an index. Reads each page once.

    Args:
        unsaved: ascending places that are not stored yet.
    """

    def __init__(self, index: int, unsaved: Sequence[int] = ()) -> None:
        self._index = index
        self._unsaved = unsaved
        self._runs: defaultdict[int, list[_Page]] = defaultdict(list)
        self._is_empty = False

    def load(self, places: Iterable[int]) -> None:
        """Reads the pages that contain some places or would contain them."""
        missing = sorted({place for place in places if not self._has(place)})
        for start in range(0, len(missing), _PROBES_AT_ONCE):
            probes = ", ".join([f"({place:d})" for place in missing[start : start + _PROBES_AT_ONCE]])
            rows = fetch_all(_PAGES.format(probes=probes, index=int(self._index)), [])
            self._is_empty = self._is_empty or not rows
            for run, first, stored, after, is_first in rows:
                pages = self._runs[run]
                at = bisect_left(pages, first, key=lambda page: page.first)
                if at == len(pages) or pages[at].first != first:
                    pages.insert(at, _Page(first, unpack_places(stored), after, bool(is_first)))

    def below(self, place: int) -> int | None:
        """The greatest place that is at most ``place``. The pages of ``place`` must have been read."""
        before = bisect_right(self._unsaved, place)
        nearest = self._unsaved[before - 1] if before else None
        for pages in self._runs.values():
            page = _page_of(pages, place)
            at = bisect_right(page.places, place)
            if at and (nearest is None or page.places[at - 1] > nearest):
                nearest = page.places[at - 1]
        return nearest

    def above(self, place: int) -> int | None:
        """The least place that is at least ``place``. The pages of ``place`` must have been read."""
        after = bisect_left(self._unsaved, place)
        nearest = self._unsaved[after] if after < len(self._unsaved) else None
        for pages in self._runs.values():
            page = _page_of(pages, place)
            at = bisect_left(page.places, place)
            next_place = page.places[at] if at < len(page.places) else page.after
            if next_place is not None and (nearest is None or next_place < nearest):
                nearest = next_place
        return nearest

    def _has(self, place: int) -> bool:
        """Whether the pages of a place have been read. True if the index has no pages."""
        if not self._runs:
            return self._is_empty
        return all(_page_of(pages, place).covers(place) for pages in self._runs.values())


def _page_of(pages: Sequence[_Page], place: int) -> _Page:
    return pages[max(0, bisect_right(pages, place, key=lambda page: page.first) - 1)]


def indexed_spans(
    lineage: Lineage, first: int, last: int, unsaved: Unsaved | None = None
) -> tuple[Spans, bool]:
    """The newest spans between two positions (both included) with the ids of their indexes, and whether
    they are all spans and completely indexed."""
    spans: list[Span] = []
    for span in lineage.between(first, last, newest_first=True):
        if len(spans) == MAX_SPANS:
            break
        spans.append(span)
    ids = {UUID(span.session) for span in spans}
    indexes = NameIndex.objects.filter(session_id__in=ids, version=VERSION)
    index_of = {str(row.session_id): row for row in indexes}
    if unsaved:
        index_of[str(unsaved.name_index.session_id)] = unsaved.name_index
    indexed = [(index_of[span.session].pk, span) for span in spans if span.session in index_of]
    is_complete = len(spans) < MAX_SPANS and len(indexed) == len(spans)
    for span in spans if is_complete else ():
        index = index_of[span.session]
        is_complete = is_complete and index.position >= span.last and not 0 < index.unread <= span.last
    return indexed, is_complete


def key_places(spans: Spans, keys: Collection[int], unsaved: Unsaved | None = None) -> dict[int, KeyPlaces]:
    """The first and last places of keys in some spans. Keys without a place are left out.

    A key takes a few reads by primary key, however often it occurs.
    """
    by_key: dict[int, KeyPlaces] = {}
    pairs = [(key, group) for key in keys for group in GROUPS]
    for reader, own in _readers(spans, unsaved):
        # The groups of a key are next to each other, usually in one page.
        reader.load(place_of(key, group, own[0].first) for key in keys for group in GROUPS[::2])
        firsts, lasts = (_ends(reader, pairs, own, newest=newest) for newest in (False, True))
        for key in {key for key, _ in firsts}:
            first, last = (tuple([ends.get((key, group)) for group in GROUPS]) for ends in (firsts, lasts))
            places = KeyPlaces(first, last)
            by_key[key] = by_key[key].joined(places) if key in by_key else places
    return by_key


def _ends(
    reader: PlaceReader, pairs: Collection[tuple[int, Group]], spans: Sequence[Span], *, newest: bool
) -> dict[tuple[int, Group], int]:
    """The first or the newest position of each key in some spans of one index. Keys without one are left out.

    The next place of a key is read once for all spans. If it is between two spans, the search continues at
    the next span.

    Args:
        spans: ascending.
    """
    ends: dict[tuple[int, Group], int] = {}
    waiting = dict.fromkeys(pairs, len(spans) - 1 if newest else 0)
    while waiting:
        probes = {
            pair: place_of(*pair, spans[at].last if newest else spans[at].first)
            for pair, at in waiting.items()
        }
        reader.load(probes.values())
        waiting = {}
        for pair, probe in probes.items():
            place = reader.below(probe) if newest else reader.above(probe)
            first, last = place_of(*pair, spans[0].first), place_of(*pair, spans[-1].last)
            if place is None or not first <= place <= last:
                continue
            position = position_of(place)
            at = bisect_right(spans, position, key=lambda span: span.first) - 1
            if position <= spans[at].last:
                ends[pair] = position
            else:
                waiting[pair] = at if newest else at + 1
    return ends


def first_actions(spans: Spans, keys: Collection[int]) -> dict[int, int]:
    """The position of the first action with each key in some spans. Keys without an action are left out."""
    positions: dict[int, int] = {}
    pairs: list[tuple[int, Group]] = [(key, "action") for key in keys]
    for reader, own in _readers(spans):
        for (key, _), position in _ends(reader, pairs, own, newest=False).items():
            positions[key] = min(position, positions.get(key, position))
    return positions


def received_positions(
    spans: Spans, keys: Collection[int], positions: Collection[int]
) -> dict[int, set[int]]:
    """The positions among ``positions`` at which the agent received each key."""
    by_key: dict[int, set[int]] = defaultdict(set)
    for reader, own in _readers(spans):
        here = [
            position for position in positions if any(span.first <= position <= span.last for span in own)
        ]
        places = {place_of(key, "given", position): (key, position) for key in keys for position in here}
        reader.load(places)
        for place, (key, position) in places.items():
            if reader.below(place) == place:
                by_key[key].add(position)
    return by_key


def all_places(spans: Spans, key: int, limit: int) -> list[tuple[str, int, Group]]:
    """The newest ``limit`` places of a key (session, position and group), oldest first."""
    places: list[tuple[str, int, Group]] = []
    for reader, own in _readers(spans):
        for span in own:
            for group in GROUPS:
                low, high = place_of(key, group, span.first), place_of(key, group, span.last)
                own_places = _downwards(reader, low, high, limit)
                places += [(span.session, position_of(place), group_at(place)) for place in own_places]
    return sorted(places, key=lambda place: place[1])[-limit:]


def _downwards(reader: PlaceReader, low: int, high: int, limit: int) -> Iterator[int]:
    for _ in range(limit):
        reader.load([high])
        place = reader.below(high)
        if place is None or place < low:
            return
        yield place
        high = place - 1


def _readers(spans: Spans, unsaved: Unsaved | None = None) -> Iterator[tuple[PlaceReader, list[Span]]]:
    """A reader for each index, with the spans of its session, ascending."""
    by_index: dict[int, list[Span]] = {}
    for index, span in spans:
        by_index.setdefault(index, []).append(span)
    for index, own in by_index.items():
        is_unsaved = unsaved is not None and unsaved.name_index.pk == index
        yield PlaceReader(index, unsaved.places if unsaved and is_unsaved else ()), own[::-1]


def flagged_steps(spans: Spans, limit: int) -> list[StepNames]:
    """The first ``limit`` steps in some spans that named unseen or gone names. One query."""
    if not spans:
        return []
    within = (Q(index_id=index, position__range=(span.first, span.last)) for index, span in spans)
    return list(StepNames.objects.filter(reduce(or_, within)).order_by("position")[:limit])


def steps_that_named(lineage: Lineage, flag: Flag) -> list[int]:
    """The numbers of the indexed live steps that named unseen or gone names."""
    spans, _ = indexed_spans(lineage, 1, lineage.last)
    return [row.number for row in flagged_steps(spans, MAX_FLAGGED) if getattr(row, flag)]


class EntrySize(NamedTuple):
    """An entry without its body."""

    step: int
    """The number of its step. Of an input, the number of the step before it."""
    tokens: int


def entry_sizes(places: Iterable[tuple[str, int]]) -> dict[int, EntrySize]:
    """Steps and sizes of the live entries at these places (session, position), by position."""
    distinct = sorted(set(places))
    sizes: dict[int, EntrySize] = {}
    for start in range(0, len(distinct), _PLACES_AT_ONCE):
        spans = [Span(session, at, at) for session, at in distinct[start : start + _PLACES_AT_ONCE]]
        rows = in_spans(Entry.objects.all(), spans).values_list("position", "totals", "tokens")
        for position, totals, tokens in rows:
            sizes[position] = EntrySize(int(totals.get("steps", 0)), tokens)
    return sizes
