"""An index of the identifiers in the log, so that searching for a name does not read the log.

The index is updated after the log (``historyapp.services.names.index``), not by appends. Its places are
sorted numbers (``historyapp.core.name_pages``) in pages. Each update adds a run of pages. Runs of similar
size are merged, so there are few of them at any length.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal, NamedTuple, get_args

from django.db import models

from historyapp.core.lineage import Lineage, Span
from historyapp.core.name_pages import GROUPS, Group, group_at, name_of, place_of, position_of
from historyapp.core.origins import VERSION
from historyapp.models.entries import Entry, in_spans
from historyapp.models.fields import owners_table, owners_value, uuid_text
from historyapp.models.name_places import NameGroup, PlaceReader, load_places
from historyapp.models.run_sql import run_sql
from historyapp.models.sessions import Session
from historyapp.models.sql import fetch_all

MAX_SPANS = 60
"""The maximum number of spans to search, newest first. A session without rewinds and forks has one."""
Flag = Literal["unseen", "gone"]
"""``unseen``: files that had not occurred before. ``gone``: names that occurred only in compacted entries."""
FLAGS: tuple[Flag, ...] = get_args(Flag)
MAX_FLAGGED = 2_000
"""The maximum number of steps with a flag to read."""
_PLACES_AT_ONCE = 100

_INDEXES = (
    "SELECT session_id, name.id, position, unread FROM {} CROSS JOIN historyapp_nameindex AS name "
    "WHERE session_id = owner.value AND version = %s"
)
_FLAGGED = """
WITH spans(index_id, first, last) AS (VALUES {spans})
SELECT step.index_id, step.position, step.number, step.unseen, step.gone
FROM spans CROSS JOIN historyapp_stepnames AS step
WHERE step.index_id = spans.index_id AND step.position BETWEEN spans.first AND spans.last
ORDER BY step.position LIMIT %s
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


class Unsaved(NamedTuple):
    """Places that are not stored yet, for searches that need them now."""

    name_index: NameIndex
    """Its position includes the unsaved places."""
    places: Sequence[int]
    """Ascending."""


class _IndexPart(NamedTuple):
    reader: PlaceReader
    spans: list[Span]
    """Ascending."""


class _IndexedTo(NamedTuple):
    index_id: int
    position: int
    unread: int


def indexed_spans(
    lineage: Lineage, first: int, last: int, unsaved: Sequence[Unsaved] = ()
) -> tuple[Spans, bool]:
    """The newest spans between two positions (both included) with the ids of their indexes, and whether
    they are all spans and completely indexed."""
    return indexed_ranges(lineage, [(first, last)], unsaved)[0]


def indexed_ranges(
    lineage: Lineage, ranges: Sequence[tuple[int, int]], unsaved: Sequence[Unsaved] = ()
) -> list[tuple[Spans, bool]]:
    """As :func:`indexed_spans`, for several ranges of positions. One query for the indexes of all."""
    in_ranges = [list(islice(lineage.between(*part, newest_first=True), MAX_SPANS)) for part in ranges]
    sessions = {span.session for spans in in_ranges for span in spans}
    values = [owners_value(sessions), VERSION]
    rows = run_sql(_INDEXES.format(owners_table()), values) if sessions else ()
    index_of = {uuid_text(session): _IndexedTo(*row) for session, *row in rows}
    for one in unsaved:
        index = one.name_index
        index_of[str(index.session_id)] = _IndexedTo(index.pk, index.position, index.unread)
    return [_with_indexes(spans, index_of) for spans in in_ranges]


def _with_indexes(spans: list[Span], index_of: dict[str, _IndexedTo]) -> tuple[Spans, bool]:
    indexed = [(index_of[span.session].index_id, span) for span in spans if span.session in index_of]
    is_complete = len(spans) < MAX_SPANS and len(indexed) == len(spans)
    for span in spans if is_complete else ():
        indexed_to = index_of[span.session]
        is_complete = is_complete and indexed_to.position >= span.last
        is_complete = is_complete and not 0 < indexed_to.unread <= span.last
    return indexed, is_complete


def key_places(spans: Spans, keys: Collection[int], unsaved: Sequence[Unsaved] = ()) -> dict[int, KeyPlaces]:
    """The first and last places of keys in some spans. Keys without a place are left out.

    A key takes a few reads by primary key, however often it occurs. All indexes are read together.
    """
    by_key: dict[int, KeyPlaces] = {}
    pairs = [(key, group) for key in keys for group in GROUPS]
    parts = _parts(spans, unsaved)
    wanted = _possible(parts, pairs)
    all_firsts, all_lasts = (_ends(parts, wanted, newest=newest) for newest in (False, True))
    for firsts, lasts in zip(all_firsts, all_lasts, strict=True):
        for key in {key for key, _ in firsts}:
            first, last = (tuple([ends.get((key, group)) for group in GROUPS]) for ends in (firsts, lasts))
            places = KeyPlaces(first, last)
            by_key[key] = by_key[key].joined(places) if key in by_key else places
    return by_key


def _possible(parts: Sequence[_IndexPart], pairs: Collection[NameGroup]) -> list[Collection[NameGroup]]:
    """The pairs that may have places in each part."""
    if not pairs:
        return [() for _ in parts]
    names = {name_of(place_of(*pair, 0)): pair for pair in pairs}
    if len(parts) > 1:  # indexes of one page need no more
        load_places((reader, (place_of(*pair, 0),)) for pair in [*pairs][:1] for reader, _ in parts)
    return [reader.may_have(names) for reader, _ in parts]


def _ends(
    parts: Sequence[_IndexPart], wanted: Sequence[Collection[NameGroup]], *, newest: bool
) -> list[dict[NameGroup, int]]:
    """The first or the newest position of each key in each part. Keys without one are left out.

    The next place of a key is read once for all spans of a part. If it is between two spans, the search
    continues at the next span.

    Args:
        wanted: the keys to find in each part.
    """
    ends: list[dict[NameGroup, int]] = [{} for _ in parts]
    waiting = {
        (number, pair): len(parts[number].spans) - 1 if newest else 0
        for number, pairs in enumerate(wanted)
        for pair in pairs
    }
    while waiting:
        probes = {}
        for (number, pair), at in waiting.items():
            span = parts[number].spans[at]
            probes[number, pair] = place_of(*pair, span.last if newest else span.first)
        load_places((parts[number].reader, (probe,)) for (number, _), probe in probes.items())
        waiting = {}
        for (number, pair), probe in probes.items():
            reader, spans = parts[number]
            place = reader.below(probe) if newest else reader.above(probe)
            first, last = place_of(*pair, spans[0].first), place_of(*pair, spans[-1].last)
            if place is None or not first <= place <= last:
                continue
            position = position_of(place)
            at = bisect_right(spans, position, key=lambda span: span.first) - 1
            if position <= spans[at].last:
                ends[number][pair] = position
            else:
                waiting[number, pair] = at if newest else at + 1
    return ends


def first_actions(spans: Spans, keys: Collection[int]) -> dict[int, int]:
    """The position of the first action with each key in some spans. Keys without an action are left out."""
    positions: dict[int, int] = {}
    pairs: list[tuple[int, Group]] = [(key, "action") for key in keys]
    parts = _parts(spans)
    for ends in _ends(parts, _possible(parts, pairs), newest=False):
        for (key, _), position in ends.items():
            positions[key] = min(position, positions.get(key, position))
    return positions


def received_positions(
    spans: Spans, keys: Collection[int], positions: Collection[int]
) -> dict[int, set[int]]:
    """The positions among ``positions`` at which the agent received each key."""
    by_key: dict[int, set[int]] = defaultdict(set)
    probes = []
    for reader, own in _parts(spans):
        here = [
            position for position in positions if any(span.first <= position <= span.last for span in own)
        ]
        probes += [(reader, key, at, place_of(key, "given", at)) for key in keys for at in here]
    load_places((reader, (place,)) for reader, _, _, place in probes)
    for reader, key, position, place in probes:
        if reader.below(place) == place:
            by_key[key].add(position)
    return by_key


def all_places(spans: Spans, key: int, limit: int) -> list[tuple[str, int, Group]]:
    """The newest ``limit`` places of a key (session, position and group), oldest first."""
    places: list[tuple[str, int, Group]] = []
    probes = [
        (reader, span, place_of(key, group, span.first), place_of(key, group, span.last))
        for reader, own in _parts(spans)
        for span in own
        for group in GROUPS
    ]
    load_places((reader, (high,)) for reader, _, _, high in probes)
    for reader, span, low, high in probes:
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


def _parts(spans: Spans, unsaved: Sequence[Unsaved] = ()) -> list[_IndexPart]:
    """A reader for each index, with the spans of its session."""
    by_index: dict[int, list[Span]] = {}
    for index, span in spans:
        by_index.setdefault(index, []).append(span)
    places = {one.name_index.pk: one.places for one in unsaved}
    return [
        _IndexPart(PlaceReader(index, places.get(index, ())), own[::-1]) for index, own in by_index.items()
    ]


def flagged_steps(spans: Spans, limit: int) -> list[StepNames]:
    """The first ``limit`` steps in some spans that named unseen or gone names. One query."""
    if not spans:
        return []
    values = ", ".join([f"({index:d}, {span.first:d}, {span.last:d})" for index, span in spans])
    rows = fetch_all(_FLAGGED.format(spans=values), [limit])
    columns = ("index_id", "position", "number", "unseen", "gone")
    return [StepNames(**dict(zip(columns, row, strict=True))) for row in rows]


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
