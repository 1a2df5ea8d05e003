"""Updates the index of names after appends, in chunks of a bounded size.

A session is indexed after the first request for the origins of its names: a short session at once, a long one
by a worker. An entry and the entries before it never change, so a chunk is computed without a lock.
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple
from uuid import UUID

from django.db.models import Count

from historyapp.core import entries as core
from historyapp.core.lineage import Lineage
from historyapp.core.name_pages import pack_places, pages, place_of
from historyapp.core.origins import (
    VERSION,
    Lookup,
    calls_of,
    files_acted_on,
    kind_of,
    lookups,
    mentions_of,
    names_in,
)
from historyapp.models import NameIndex, NamePage, NameRun, Session, StepNames
from historyapp.models.indexed_entries import MissingEntries, missing_entries
from historyapp.models.long_rows import AT_ONCE
from historyapp.models.origins import Unsaved, indexed_spans, key_places
from historyapp.models.own_rows import OwnRow, own_rows
from historyapp.models.sql import WINDOW_KEYS
from historyapp.services.names.merges import merge_runs
from historyapp.services.names.seen import SeenEntries
from historyapp.services.transactions import writing

CHUNK_ENTRIES = 2_000
CHUNK_TOKENS = 400_000
"""A chunk ends after this many entries, or after the entry with which it reaches this many tokens."""
WINDOW_SIZE = AT_ONCE
"""The maximum number of bytes to read of the entries before a chunk, as many as of the chunk itself."""
STORED_PLACES, STORED_SECONDS = 20_000, 0.5
"""A transaction stores chunks with this many places (about 100 KB), or the chunks of this many seconds. A
session with many rewinds has many small chunks, and agents wait for each transaction."""
_PAGE_BATCH = 100
READ_SECONDS = 0.5
"""A request adds chunks for this many seconds."""
READ_ENTRIES, READ_TOKENS, READ_SIZE = 200, 60_000, 1 << 20
"""The maximum numbers of entries, tokens and bytes of a chunk that a request adds. Some long texts have few
tokens."""
SESSIONS_AT_ONCE = 50
"""A transaction stores chunks of at most this many sessions: a fork of 200 forks has 200 small ones."""
MAX_MISSING = 1_000
"""If more entries of a session are missing, a worker adds them."""
_ACTED_ON = ("path", "url", "hash")


class _Action(NamedTuple):
    position: int
    number: int
    files: list[str]
    names: list[str]


class _IndexState(NamedTuple):
    """The state of the index before a chunk."""

    name_index: NameIndex
    unsaved: Sequence[Unsaved]
    seen: SeenEntries
    unread: int
    """The position of the first entry that is indexed only in part, or 0. It may be in the chunk."""


class IndexChunk(NamedTuple):
    """The additions of some entries to the index."""

    last: int
    unread: int
    places: list[int]
    """Ascending, see :func:`historyapp.core.name_pages.place_of`."""
    steps: list[StepNames]


@dataclass
class _Batch:
    """Chunks of several sessions that one transaction stores."""

    until: float
    """The monotonic time at which no further chunk is started."""
    is_interactive: bool
    """Whether a request is waiting."""
    chunks: list[tuple[Unsaved, int, IndexChunk]] = field(default_factory=list)
    """The chunks, each with its index and the position of the index before it."""

    @property
    def is_full(self) -> bool:
        places = sum(len(chunk.places) for _, _, chunk in self.chunks)
        return places >= STORED_PLACES or time.monotonic() >= self.until


def catch_up(lineage: Lineage, seconds: float = READ_SECONDS, *, limit: int | None = MAX_MISSING) -> bool:
    """Adds the entries of a lineage that are missing in the index. Returns whether the index is complete.

    Args:
        seconds: no further chunk is started after this time.
        limit: a session with more missing entries is left to a worker, and so are those that were forked
            from it, because an index needs those of its ancestors; None: no session is left.
    """
    end = time.monotonic() + seconds
    missing = missing_entries(lineage)
    short = missing
    if limit is not None:
        short = list(takewhile(lambda part: part.last - part.after <= limit, missing))
    is_complete = len(short) == len(missing)
    while short:
        short = _add_chunks(short, end, is_interactive=limit is not None)
        if time.monotonic() >= end:
            break
    return is_complete and not short


def add_chunk(session: Session, last: int | None = None, *, is_interactive: bool = False) -> bool:
    """Adds the next entries of a session to the index. Returns whether there are more.

    Args:
        last: the last position to index; None: the head.
        is_interactive: whether a request is waiting for the chunk.
    """
    end = session.head if last is None else min(last, session.head)
    missing = MissingEntries(session.pk, session.fork_position, end)
    return bool(_add_chunks([missing], math.inf, is_interactive=is_interactive))


def _add_chunks(
    missing: Sequence[MissingEntries], end: float, *, is_interactive: bool
) -> list[MissingEntries]:
    """Adds the next chunks of some sessions to the index, in one transaction. Returns what is still missing.

    Args:
        end: the monotonic time at which no further chunk is started.
    """
    ids = [part.session for part in missing[:SESSIONS_AT_ONCE]]
    indexes, sessions = _indexes(ids), Session.objects.in_bulk(ids)
    batch = _Batch(min(time.monotonic() + STORED_SECONDS, end), is_interactive)
    left = list(missing)
    for part in missing[:SESSIONS_AT_ONCE]:
        if batch.chunks and batch.is_full:
            break
        index, session = indexes.get(part.session), sessions.get(part.session)
        if index and session and index.position < part.last:  # it may have been deleted
            start = index.position
            chunk = next_chunks(session, index, part.last, batch)
            if chunk:
                batch.chunks.append((Unsaved(index, chunk.places), start, chunk))
            if chunk and chunk.last < part.last:
                break
        del left[0]
    _store_batch(batch, end)
    return left


def _store_batch(batch: _Batch, end: float) -> None:
    """Stores the chunks, and merges runs of the first index, and of others until ``end``."""
    starts = {unsaved.name_index.pk: start for unsaved, start, _ in batch.chunks}
    if not starts:
        return
    with writing():
        locked = NameIndex.objects.select_for_update().filter(pk__in=starts).order_by("pk")
        # Another process may have been faster, or a session may have been deleted.
        unchanged = {index.pk: index for index in locked if index.position == starts[index.pk]}
        by_index = {unsaved.name_index.pk: chunk for unsaved, _, chunk in batch.chunks}
        store_chunks([(index, by_index[pk]) for pk, index in unchanged.items()])
    runs = NameRun.objects.filter(index__in=starts).values("index").annotate(runs=Count("pk"))
    for number, pk in enumerate(runs.filter(runs__gt=1).values_list("index", flat=True)):
        if pk in unchanged and (number == 0 or time.monotonic() < end):
            merge_runs(unchanged[pk], is_interactive=batch.is_interactive)


def _indexes(sessions: Sequence[UUID]) -> dict[UUID, NameIndex]:
    """The indexes of some sessions. Creates those that are missing, and empties those of another version;
    workers delete the old pages."""
    rows = NameIndex.objects.filter(session__in=sessions)
    indexes = {row.session_id: row for row in rows.filter(version=VERSION)}
    if len(indexes) == len(sessions):
        return indexes
    with writing():
        fork_positions = dict(Session.objects.filter(pk__in=sessions).values_list("pk", "fork_position"))
        for old in rows.select_for_update().exclude(version=VERSION).order_by("pk"):
            NameRun.objects.filter(index=old).update(is_live=False)
            StepNames.objects.filter(index=old).delete()
            NameIndex.objects.filter(pk=old.pk).update(
                position=fork_positions[old.session_id], unread=0, version=VERSION
            )
        new = [
            NameIndex(session_id=session, position=at, version=VERSION)
            for session, at in fork_positions.items()
            if session not in indexes
        ]
        NameIndex.objects.bulk_create(new, ignore_conflicts=True)
    return {row.session_id: row for row in rows.filter(version=VERSION)}


def next_chunks(
    session: Session, index: NameIndex, end: int, batch: _Batch | None = None
) -> IndexChunk | None:
    """The next chunks of a session, as one chunk; None at the end.

    Args:
        index: its position is advanced, but not stored.
        end: the last position to index. The last chunk may include later ones.
        batch: its time bounds the chunks; None: no time does, and the last chunk ends at ``end``.
    """
    last = end if batch is None else None
    batch = batch or _Batch(math.inf, is_interactive=False)
    others = [unsaved for unsaved, _, _ in batch.chunks]
    reader = ChunkReader(session, index.position, last, is_interactive=batch.is_interactive)
    merged: IndexChunk | None = None
    while merged is None or (
        index.position < end and len(merged.places) < STORED_PLACES and not batch.is_full
    ):
        unsaved = [*others, Unsaved(index, merged.places if merged else ())]
        chunk = reader.next_chunk(index, unsaved)
        if chunk is None:
            break
        index.position, index.unread = chunk.last, index.unread or chunk.unread
        places = sorted([*merged.places, *chunk.places]) if merged else chunk.places
        merged = IndexChunk(
            chunk.last, index.unread, places, [*(merged.steps if merged else ()), *chunk.steps]
        )
    return merged


def store_chunks(chunks: Sequence[tuple[NameIndex, IndexChunk]]) -> None:
    named = [(index, chunk.places) for index, chunk in chunks if chunk.places]
    runs = NameRun.objects.bulk_create([NameRun(index=index, size=len(places)) for index, places in named])
    rows = [
        NamePage(run=run, first=page[0], places=pack_places(page))
        for run, (_, places) in zip(runs, named, strict=True)
        for page in pages(places)
    ]
    NamePage.objects.bulk_create(rows, batch_size=_PAGE_BATCH)
    StepNames.objects.bulk_create([step for _, chunk in chunks for step in chunk.steps])
    for index, chunk in chunks:
        index.position, index.unread = chunk.last, index.unread or chunk.unread
    NameIndex.objects.bulk_update([index for index, _ in chunks], ["position", "unread"])


class ChunkReader:
    """Reads the next chunks of a session's entries.

    Args:
        after: the position of the index.
        last: the last position to read; None: the head.
        is_interactive: whether a request is waiting.
    """

    def __init__(
        self, session: Session, after: int, last: int | None = None, *, is_interactive: bool = False
    ) -> None:
        self._max_entries, self._max_tokens, self._max_size = CHUNK_ENTRIES, CHUNK_TOKENS, AT_ONCE
        if is_interactive:
            self._max_entries, self._max_tokens, self._max_size = READ_ENTRIES, READ_TOKENS, READ_SIZE
        end = session.head if last is None else min(last, session.head)
        self._rows = _rows(session, after, end, self._max_entries)
        self._seen = SeenEntries(session, after, WINDOW_SIZE)

    def next_chunk(self, index: NameIndex, unsaved: Sequence[Unsaved] = ()) -> IndexChunk | None:
        """The names in the next entries, and the actions with unseen or compacted names; None at the end.

        Args:
            index: its position is that of the entry before.
            unsaved: the places up to the index's position that are not stored yet, and those of other
                indexes.
        """
        entries = self._next_entries()
        if not entries:
            return None
        places: set[int] = set()
        keys: list[set[int]] = []
        unread = 0
        for _, entry in entries:
            mentioned = mentions_of(entry.body, entry.metadata)
            places.update(
                [place_of(mention.key, mention.group, entry.position) for mention in mentioned.mentions]
            )
            keys.append({mention.key for mention in mentioned.mentions})
            unread = unread or (0 if mentioned.is_complete else entry.position)
        state = _IndexState(index, unsaved or [Unsaved(index, ())], self._seen, index.unread or unread)
        steps = _flagged_steps(state, entries, keys)
        self._seen.end_chunk(entries[-1][0])
        return IndexChunk(entries[-1][1].position, unread, sorted(places), steps)

    def _next_entries(self) -> list[tuple[OwnRow, core.Entry]]:
        """The next entries. A chunk ends with a rewind, because the lineage changes there."""
        entries: list[tuple[OwnRow, core.Entry]] = []
        tokens = size = 0
        for row in self._rows:
            entries.append((row, row.core()))
            tokens, size = tokens + row.tokens, size + row.size
            is_full = len(entries) == self._max_entries or tokens >= self._max_tokens
            if row.kind == "rewind" or is_full or size >= self._max_size:
                break
        return entries


def _rows(session: Session, after: int, last: int, at_once: int) -> Iterator[OwnRow]:
    """A session's own entries after a position. Each query reads at most ``at_once``."""
    for start in range(after + 1, last + 1, at_once):
        yield from own_rows(session.pk, start, min(last, start + at_once - 1), WINDOW_KEYS)


def _action(row: OwnRow, output: core.ModelOutput) -> _Action:
    """The files that the calls of an output act on, and the names in them."""
    files: dict[str, None] = {}
    names: dict[str, None] = {}
    for tool_call in calls_of(output):
        files.update(dict.fromkeys(files_acted_on(tool_call)))
        names.update(dict.fromkeys(name for name in names_in(tool_call) if kind_of(name) in _ACTED_ON[1:]))
    return _Action(row.position, int(row.totals.get("steps", 0)), list(files), [*files, *names])


def _flagged_steps(
    state: _IndexState, entries: Sequence[tuple[OwnRow, core.Entry]], keys: Sequence[set[int]]
) -> list[StepNames]:
    """The rows of actions with names that were not seen before or had been compacted away.

    Args:
        keys: the keys of each entry.
    """
    index, unsaved, seen, unread = state
    actions = {
        row.position: _action(row, entry.body)
        for row, entry in entries
        if isinstance(entry.body, core.ModelOutput)
    }
    spellings = {name: lookups(name) for action in actions.values() for name in action.names}
    used_keys = {
        key for name_spellings in spellings.values() for spelling in name_spellings for key in spelling.keys
    }
    spans, is_complete = indexed_spans(seen.lineage, 1, seen.lineage.last, unsaved)
    newest = {key: known.newest for key, known in key_places(spans, used_keys, unsaved).items()}
    steps: list[StepNames] = []
    for (row, entry), entry_keys in zip(entries, keys, strict=True):
        action = actions.get(row.position)
        if action is not None:
            standing = seen.standing_names()
            may_be_unseen = is_complete and not 0 < unread < row.position
            last_seen = {name: _last_seen(spellings[name], newest) for name in action.names}
            standing_names = {
                name
                for name in action.names
                if any(standing.issuperset(spelling.keys) for spelling in spellings[name])
            }
            names = StepNames(
                index=index,
                position=row.position,
                number=action.number,
                unseen=sum(not last_seen[file] for file in action.files) if may_be_unseen else 0,
                gone=sum(
                    at > 0 and seen.removed.is_removed(at) and name not in standing_names
                    for name, at in last_seen.items()
                ),
            )
            steps += [names] if names.unseen or names.gone else []
        newest.update(dict.fromkeys(entry_keys & used_keys, row.position))
        if row.kind != "rewind":
            seen.add(row, entry, entry_keys)
    return steps


def _last_seen(spellings: Iterable[Lookup], newest: dict[int, int]) -> int:
    """The last position of a name in any of its spellings; 0 if there is none."""
    positions = [
        newest[spelling.keys[0]] for spelling in spellings if all(key in newest for key in spelling.keys)
    ]
    return max(positions, default=0)
