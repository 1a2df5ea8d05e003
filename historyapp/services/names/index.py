"""Updates the index of names after appends, in chunks of a bounded size.

A session is indexed after the first request for the origins of its names: a short session at once, a long one
by a worker. An entry and the entries before it never change, so a chunk is computed without a lock.
"""

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from django.db.models import Sum

from historyapp.core import entries as core
from historyapp.core.compactions import RemovedEntries
from historyapp.core.entries import INPUT_KINDS
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
from historyapp.core.windows import LogRow
from historyapp.models import NameIndex, NamePage, NameRun, Session, StepNames
from historyapp.models.long_rows import AT_ONCE
from historyapp.models.origins import Unsaved, indexed_spans, key_places
from historyapp.models.own_rows import OwnRow, own_rows
from historyapp.models.sql import WINDOW_KEYS, newest_or_oldest, window_rows
from historyapp.services.names.merges import merge_runs, places_of_run
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

    unsaved: Unsaved
    session: Session
    lineage: Lineage
    unread: int
    """The position of the first entry that is indexed only in part, or 0. It may be in the chunk."""


class IndexChunk(NamedTuple):
    """The additions of some entries to the index."""

    last: int
    unread: int
    places: list[int]
    """Ascending, see :func:`historyapp.core.name_pages.place_of`."""
    steps: list[StepNames]


def catch_up(lineage: Lineage, seconds: float = READ_SECONDS, *, limit: int | None = MAX_MISSING) -> bool:
    """Adds the entries of a lineage that are missing in the index. Returns whether the index is complete.

    Args:
        seconds: no further chunk is started after this time.
        limit: sessions with more missing entries are skipped; None: no session is skipped.
    """
    end = time.monotonic() + seconds
    newest = dict[str, int]()
    for span in lineage.between(1, lineage.last, newest_first=True):
        newest.setdefault(span.session, span.last)
        if len(newest) > READ_ENTRIES:
            break
    is_complete = True
    for session_id, last in reversed(newest.items()):
        index = NameIndex.objects.filter(session_id=UUID(session_id), version=VERSION).first()
        if index and index.position >= last:
            continue
        session = Session.objects.get(pk=UUID(session_id))
        if limit is not None and last - (index.position if index else session.fork_position) > limit:
            is_complete = False
            continue
        while add_chunk(session, last, is_interactive=limit is not None):
            if time.monotonic() >= end:
                return False
    return is_complete


def indexed_up_to(lineage: Lineage) -> int:
    """The sum of the positions up to which the sessions of a lineage are indexed. Grows with each chunk."""
    spans, _ = indexed_spans(lineage, 1, lineage.last)
    result = NameIndex.objects.filter(pk__in={index for index, _ in spans}).aggregate(sum=Sum("position"))
    return int(result["sum"] or 0)


def add_chunk(session: Session, last: int | None = None, *, is_interactive: bool = False) -> bool:
    """Adds the next entries of a session to the index. Returns whether there are more.

    Args:
        last: the last position to index; None: the head.
        is_interactive: whether a request is waiting for the chunk.
    """
    index = NameIndex.objects.filter(session=session, version=VERSION).first() or _create_index(session)
    end = session.head if last is None else min(last, session.head)
    if index.position >= end:
        return False
    start = index.position
    chunk = _next_chunks(session, index, end, is_interactive=is_interactive)
    if chunk is None:
        return False
    with writing():
        locked = NameIndex.objects.select_for_update().filter(pk=index.pk).first()
        # Another process may have been faster, or the session may have been deleted.
        if locked and locked.position == start:
            _store(locked, chunk)
    merge_runs(index, is_interactive=is_interactive)
    return locked is not None and chunk.last < end


def _create_index(session: Session) -> NameIndex:
    """Creates an empty index. It replaces an index of another version; workers delete the old pages."""
    start = {"position": session.fork_position, "unread": 0, "version": VERSION}
    with writing():
        index, is_new = NameIndex.objects.select_for_update().get_or_create(session=session, defaults=start)
        if not is_new and index.version != VERSION:
            NameRun.objects.filter(index=index).update(is_live=False)
            StepNames.objects.filter(index=index).delete()
            NameIndex.objects.filter(pk=index.pk).update(**start)
            index.refresh_from_db()
    return index


def _next_chunks(session: Session, index: NameIndex, end: int, *, is_interactive: bool) -> IndexChunk | None:
    """The next chunks that one transaction stores, as one chunk; None at the end.

    Args:
        index: its position is advanced, but not stored.
        end: the last position to index.
    """
    deadline = time.monotonic() + STORED_SECONDS
    merged: IndexChunk | None = None
    while merged is None or (
        index.position < end and len(merged.places) < STORED_PLACES and time.monotonic() < deadline
    ):
        chunk = read_chunk(session, index, merged.places if merged else (), is_interactive=is_interactive)
        if chunk is None:
            break
        index.position, index.unread = chunk.last, index.unread or chunk.unread
        places = sorted([*merged.places, *chunk.places]) if merged else chunk.places
        merged = IndexChunk(
            chunk.last, index.unread, places, [*(merged.steps if merged else ()), *chunk.steps]
        )
    return merged


def _store(index: NameIndex, chunk: IndexChunk) -> None:
    if chunk.places:
        run = NameRun.objects.create(index=index, size=len(chunk.places))
        rows = [NamePage(run=run, first=page[0], places=pack_places(page)) for page in pages(chunk.places)]
        NamePage.objects.bulk_create(rows, batch_size=_PAGE_BATCH)
    StepNames.objects.bulk_create(chunk.steps)
    index.position, index.unread = chunk.last, index.unread or chunk.unread
    index.save(update_fields=["position", "unread"])


def read_chunk(
    session: Session,
    index: NameIndex,
    unsaved: Sequence[int] = (),
    *,
    last: int | None = None,
    is_interactive: bool = False,
) -> IndexChunk | None:
    """The names in the next entries, and the actions with unseen or compacted names; None at the end.

    Args:
        unsaved: the places up to the index's position that are not stored yet, ascending.
        last: the last position to read; None: the head.
    """
    entries = _next_entries(session, index.position, last, is_interactive=is_interactive)
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
    lineage = session.lineage(index.position).cut(index.position)
    steps = _flagged_steps(
        _IndexState(Unsaved(index, unsaved), session, lineage, index.unread or unread), entries, keys
    )
    return IndexChunk(entries[-1][1].position, unread, sorted(places), steps)


def _next_entries(
    session: Session, after: int, last: int | None, *, is_interactive: bool
) -> list[tuple[OwnRow, core.Entry]]:
    """The next entries. A chunk ends with a rewind, because the lineage changes there."""
    max_entries, max_tokens, max_size = CHUNK_ENTRIES, CHUNK_TOKENS, AT_ONCE
    if is_interactive:
        max_entries, max_tokens, max_size = READ_ENTRIES, READ_TOKENS, READ_SIZE
    end = after + max_entries if last is None else min(after + max_entries, last)
    entries: list[tuple[OwnRow, core.Entry]] = []
    tokens = size = 0
    for row in own_rows(session.pk, after + 1, min(end, session.head), WINDOW_KEYS):
        entries.append((row, row.core()))
        tokens, size = tokens + row.tokens, size + row.size
        if row.kind == "rewind" or tokens >= max_tokens or size >= max_size:
            break
    return entries


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
    unsaved, session, lineage, unread = state
    actions = {
        row.position: _action(row, entry.body)
        for row, entry in entries
        if isinstance(entry.body, core.ModelOutput)
    }
    spellings = {name: lookups(name) for action in actions.values() for name in action.names}
    used_keys = {
        key for name_spellings in spellings.values() for spelling in name_spellings for key in spelling.keys
    }
    spans, is_complete = indexed_spans(lineage, 1, lineage.last, unsaved)
    newest = {key: known.newest for key, known in key_places(spans, used_keys, unsaved).items()}
    seen = RemovedEntries(window_rows(lineage, WINDOW_SIZE))
    # The keys in the newest instruction and notebook, which compactions do not remove.
    kinds = ("system_instruction", "memory_notebook")
    kept = (newest_or_oldest(lineage, kind, session, newest=True) for kind in kinds)
    standing = {mention.key for entry in kept if entry for mention in mentions_of(entry.body).mentions}
    steps: list[StepNames] = []
    for (row, entry), entry_keys in zip(entries, keys, strict=True):
        action = actions.get(row.position)
        if action is not None:
            may_be_unseen = is_complete and not 0 < unread < row.position
            last_seen = {name: _last_seen(spellings[name], newest) for name in action.names}
            standing_names = {
                name
                for name in action.names
                if any(standing.issuperset(spelling.keys) for spelling in spellings[name])
            }
            names = StepNames(
                index=unsaved.name_index,
                position=row.position,
                number=action.number,
                unseen=sum(not last_seen[file] for file in action.files) if may_be_unseen else 0,
                gone=sum(
                    at > 0 and seen.is_removed(at) and name not in standing_names
                    for name, at in last_seen.items()
                ),
            )
            steps += [names] if names.unseen or names.gone else []
        newest.update(dict.fromkeys(entry_keys & used_keys, row.position))
        if row.kind in kinds:
            standing |= entry_keys
        elif row.kind != "rewind":
            body = row.body if row.kind in (*INPUT_KINDS, "debug_log") else {}
            seen.add(LogRow(row.position, row.kind, row.created_at, row.tokens, entry.metadata, body))
    return steps


def _last_seen(spellings: Iterable[Lookup], newest: dict[int, int]) -> int:
    """The last position of a name in any of its spellings; 0 if there is none."""
    positions = [
        newest[spelling.keys[0]] for spelling in spellings if all(key in newest for key in spelling.keys)
    ]
    return max(positions, default=0)


def rebuild_names(session: Session) -> list[str]:
    """Builds the index of a session again and reports whether the stored one differed.

    Does nothing if the session has no index, or one of an earlier version, which the next reader replaces.
    """
    index = NameIndex.objects.filter(session=session, version=VERSION).first()
    if index is None:
        return []
    before = _index_content(index)
    last = index.position
    NameRun.objects.filter(index=index).delete()
    StepNames.objects.filter(index=index).delete()
    index.position, index.unread = session.fork_position, 0
    index.save(update_fields=["position", "unread"])
    while index.position < last and (chunk := read_chunk(session, index, last=last)):
        _store(index, chunk)
    return [] if before == _index_content(index) else ["the index of names differed"]


def _index_content(index: NameIndex) -> list[object]:
    """The content of an index, independent of chunks and runs. Of the places, only their number and sum."""
    count = total = 0
    for run in NameRun.objects.filter(index=index, is_live=True):
        for place in places_of_run(run.pk):
            count, total = count + 1, total + place
    steps = StepNames.objects.filter(index=index).order_by("position")
    flags = list(steps.values_list("position", "number", "unseen", "gone"))
    return [index.position, index.unread, count, total, flags]
