"""The entries of one step, as far as a page needs them that shows some of its tool calls.

A step of 1,000 tool calls may have as many entries with results. A page shows 20 calls at once, and for the
other results it needs only their ids.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple

from historyapp.core.entries import STEP_KINDS, Entry, ModelOutput, ToolResults
from historyapp.core.lineage import Lineage
from historyapp.core.overview.person_waits import may_wait_for_person
from historyapp.core.recorded_diffs import RECORDED_DIFFS
from historyapp.core.result_ids import read_result_ids
from historyapp.models.fields import unpack
from historyapp.models.long_rows import count_read
from historyapp.models.sql import WINDOW_KEYS, live_entries, live_entries_at, stored_bodies

MAX_ENTRIES = 2_000
"""The maximum number of entries read of one step."""
_METADATA = (*WINDOW_KEYS, "duration_seconds", RECORDED_DIFFS)
_RESULTS = ToolResults.kind_name()
_AT_FIRST = 42
"""Entries that are read in full. Nearly all steps have fewer, so they take one query."""
_RESULT_SIZE = 100
"""The bytes in memory of a result of which only the id is read."""


class _Contents(NamedTuple):
    """What is known of an entry without its texts."""

    position: int
    kind: str
    ids: tuple[str | None, ...] = ()
    """The tool call IDs of its results."""
    has_remark: bool = False


def shown_entries(lineage: Lineage, first: int, last: int, calls: range) -> list[Entry]:
    """The entries of a step, oldest first, without some results that answer other calls than those shown.

    They are all there if a result answers no call or has no id, or if the step may have waited for a person:
    then other results matter too. At most :data:`MAX_ENTRIES` are read.

    Args:
        first: the position of the step's output.
        last: the position of its last entry.
        calls: the indexes of the calls that are shown. As many remarks and reviews are read at least.
    """
    read = partial(live_entries, lineage, STEP_KINDS, before=last + 1, metadata=_METADATA)
    entries = list(read(after=first - 1, limit=_AT_FIRST))
    if len(entries) < _AT_FIRST:
        return entries
    after, left = entries[-1].position, MAX_ENTRIES - _AT_FIRST
    others = _contents_between(lineage, after, last + 1, left)
    needed = _needed_positions(entries[0], chain(map(_contents_of, entries[1:]), others), calls)
    if needed is None:
        return entries + list(read(after=after, limit=left))
    further = [position for position in needed if position > after]
    return entries + list(live_entries_at(lineage, STEP_KINDS, further, _METADATA))


def _needed_positions(first: Entry, contents: Iterable[_Contents], calls: range) -> list[int] | None:
    """The entries that the shown calls need; None if all are needed."""
    output = first.body
    if not isinstance(output, ModelOutput) or may_wait_for_person(output):
        return None
    ids = [tool_call.id for tool_call in output.tool_calls]
    pending, shown = set[str | None](ids), set[str | None](ids[calls.start : calls.stop])
    needed, aside = list[int](), Counter[str]()
    for position, kind, answered, has_remark in contents:
        is_needed = False
        for id in answered:
            if id not in pending:
                return None
            pending.remove(id)
            is_needed = is_needed or id in shown
        if has_remark or not answered:
            aside[kind] += 1
            is_needed = is_needed or aside[kind] <= len(calls)
        if is_needed:
            needed.append(position)
    return needed


def _contents_of(entry: Entry) -> _Contents:
    if not isinstance(entry.body, ToolResults):
        return _Contents(entry.position, entry.kind)
    ids = tuple([result.tool_call_id for result in entry.body.results])
    return _Contents(entry.position, entry.kind, ids, bool(entry.body.overall))


def _contents_between(lineage: Lineage, after: int, before: int, limit: int) -> Iterator[_Contents]:
    """The contents of live entries between two positions (both excluded), oldest first."""
    for position, kind, packed in stored_bodies(lineage, STEP_KINDS, after, before, limit):
        stored = unpack(packed)
        if kind == _RESULTS:
            ids, has_remark = read_result_ids(stored)
            count_read(len(stored) + _RESULT_SIZE * len(ids))
            yield _Contents(position, kind, ids, has_remark)
        else:
            count_read(len(stored))
            yield _Contents(position, kind)
