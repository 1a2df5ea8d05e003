"""Finds the entries that the model saw: those since the agent last compacted or cleared its own context.

Agents stay within their model's window by replacing older entries: Claude Code and Codex continue from a
summary, OpenHands forgets single events. Their transcripts record this, and importers keep these records.
Rows are read from the newest end, so the cost depends only on the size of the window.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from historyapp.core.entries import INPUT_KINDS, text_of
from historyapp.core.json import listing, mapping, parse_embedded, text

Beginning = Literal["session", "compaction", "cleared", "older"]
"""Why a window begins where it does: nothing was replaced, the agent compacted or cleared its context, or the
older entries would not fit into the model's window and the log records no compaction."""
CLEARED = "<command-name>/clear</command-name>"
MAX_FORGOTTEN = 10_000
"""Reading ends after this many forgotten entries, so that its cost does not grow with the session."""
HOOK_CLEARED = "The context was cleared."
"""The beginning of the entry that the importer makes for a ``SessionStart:clear`` hook."""
MAX_IDS = 64
"""The number of a row's ids that are read. OpenHands gives an output one for each of its tool calls."""
READ = ("model_output", "tool_results", "debug_log", *INPUT_KINDS)
"""The kinds of entries in a window. Instruction and notebook are not part of it."""


class LogRow(NamedTuple):
    """An entry without the bodies that a window does not need."""

    position: int
    kind: str
    created_at: datetime
    tokens: int
    """By our own count, of text only."""
    metadata: Mapping[str, Any]
    body: Mapping[str, Any]
    """The stored fields of inputs and debug entries; empty for all others."""

    @property
    def channel(self) -> str:
        """The channel of an input; empty for anything else."""
        return str(self.body.get("channel", "user")) if self.kind == "model_input" else ""

    @property
    def ids(self) -> set[str]:
        """The ids of the entry in the transcript."""
        source = mapping(self.metadata.get("source"))
        names = [source.get("uuid"), source.get("id"), *listing(source.get("ids"))[:MAX_IDS]]
        return {str(name) for name in names if isinstance(name, (str, int))}


class Window(NamedTuple):
    """The entries of a request, without its instruction and tools."""

    rows: tuple[LogRow, ...]
    """Oldest first."""
    begins: Beginning
    position: int | None = None
    """The position of the entry that compacted or cleared the context, or of the oldest entry that was
    read."""
    replacement: tuple[Mapping[str, Any], ...] = ()
    """Items that replace the history: those of the transcript, or a condenser's summary."""
    replaced_by: int | None = None
    """The position of the entry that holds them."""
    forgotten: int = 0
    """The number of entries that condensations removed from the middle."""
    condensed_by: int | None = None
    """The position of the newest condensation that removed entries."""
    forgotten_outputs: tuple[int, ...] = ()
    """The positions of outputs among those entries, newest first."""

    @property
    def outputs(self) -> list[int]:
        """The positions of all outputs since the window's beginning, also of forgotten ones, oldest first."""
        seen = [row.position for row in self.rows if row.kind == "model_output"]
        return sorted([*seen, *self.forgotten_outputs])

    @property
    def changed_at(self) -> int:
        """The newest position at which the agent replaced a part of its history; 0 if it did not."""
        began = self.position if self.begins != "older" else None
        return max(began or 0, self.replaced_by or 0, self.condensed_by or 0)


def is_clear(row: LogRow) -> bool:
    """Whether a debug entry says that a hook of Claude Code saw ``/clear``."""
    return row.body.get("category") == "clear" and text(row.body.get("message")).startswith(HOOK_CLEARED)


class _Forgotten:
    """The entries that condensations of OpenHands removed, and the newest summary of them."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._firsts, self._lasts = list[int](), list[int]()
        """The first and last numbers of ranges of events, in order. The ranges do not overlap."""
        self.count = 0
        self._outputs: list[int] = []
        self.condensed_by: int | None = None
        self.summary: tuple[Mapping[str, Any], ...] = ()
        self.summarised_by: int | None = None

    def note(self, row: LogRow) -> None:
        """Reads what a debug entry records about a condensation."""
        condensed = mapping(mapping(row.metadata.get("source")).get("condensed"))
        if condensed.get("summarised") and not self.summary:
            self.summary = ({"role": "user", "content": text(row.body.get("message"))},)
            self.summarised_by = row.position
        self._ids |= {str(id) for id in listing(condensed.get("forgotten"))}
        first, last = condensed.get("first"), condensed.get("last")
        if isinstance(first, int) and isinstance(last, int) and first <= last:
            start, end = bisect_left(self._lasts, first), bisect_right(self._firsts, last)
            if start < end:  # it overlaps other ranges
                first, last = min(first, self._firsts[start]), max(last, self._lasts[end - 1])
            self._firsts[start:end], self._lasts[start:end] = [first], [last]
        if self.condensed_by is None and (self._ids or self._firsts):
            self.condensed_by = row.position

    def _is_in_range(self, number: int) -> bool:
        place = bisect_right(self._firsts, number)
        return place > 0 and number <= self._lasts[place - 1]

    @property
    def outcome(self) -> tuple[tuple[Mapping[str, Any], ...], int | None, int, int | None, tuple[int, ...]]:
        """The values of the last five fields of a window."""
        return self.summary, self.summarised_by, self.count, self.condensed_by, tuple(self._outputs)

    def has(self, row: LogRow) -> bool:
        """Whether an entry was removed. Counts removed entries."""
        ids = row.ids
        numbers = [int(id) for id in ids if id.isascii() and id.isdecimal() and len(id) < 19]
        is_forgotten = bool(ids & self._ids) or any(map(self._is_in_range, numbers))
        self.count += is_forgotten
        if is_forgotten and row.kind == "model_output":
            self._outputs.append(row.position)
        return is_forgotten


def find_window(newest_first: Iterable[LogRow], max_tokens: int) -> Window:
    """The window that ends with the newest of these rows.

    Args:
        max_tokens: reading ends at this many, unless an entry says that older entries were replaced.
    """
    rows = iter(newest_first)
    newest_rows: list[LogRow] = []
    forgotten = _Forgotten()
    tokens = 0

    for row in rows:
        if row.kind == "debug_log":
            forgotten.note(row)
            if history := _replacement(row):
                items = history, row.position
                return Window(tuple(newest_rows[::-1]), "compaction", row.position, *items, forgotten.count)
            if is_clear(row):
                return Window(tuple(newest_rows[::-1]), "cleared", row.position, forgotten=forgotten.count)
            continue
        if forgotten.has(row):
            if forgotten.count == MAX_FORGOTTEN:
                return Window(tuple(newest_rows[::-1]), "older", row.position, *forgotten.outcome)
            continue
        if row.channel == "compaction":
            return _compacted(row, rows, newest_rows, forgotten.count)
        newest_rows.append(row)
        if row.channel == "command" and CLEARED in text_of(row.body.get("content")):
            return Window(tuple(newest_rows[::-1]), "cleared", row.position, forgotten=forgotten.count)
        tokens += row.tokens
        if tokens > max_tokens:
            return Window(tuple(newest_rows[::-1]), "older", row.position, *forgotten.outcome)
    return Window(tuple(newest_rows[::-1]), "session", None, *forgotten.outcome)


def _compacted(summary: LogRow, older: Iterator[LogRow], newest_rows: list[LogRow], skipped: int) -> Window:
    """The window after a summary, with the entries that the agent kept."""
    for row in older:
        if row.kind == "debug_log" and row.body.get("category") != "compaction":
            continue
        if history := _replacement(row):  # the summary is among its items
            return Window(
                tuple(newest_rows[::-1]), "compaction", summary.position, history, row.position, skipped
            )
        kept = _preserved(row) if row.kind == "debug_log" else set()
        preserved = list(_while_kept(older, kept)) if kept else []
        rows = (summary, *preserved[::-1], *newest_rows[::-1])
        return Window(rows, "compaction", summary.position, forgotten=skipped)
    return Window((summary, *newest_rows[::-1]), "compaction", summary.position, forgotten=skipped)


def _replacement(row: LogRow) -> tuple[Mapping[str, Any], ...]:
    """Codex: the items that replace the history."""
    return tuple(item for item in listing(row.metadata.get("replacement_history")) if isinstance(item, dict))


def _preserved(boundary: LogRow) -> set[str]:
    """Claude Code: the records that stay in the context unchanged, after the summary."""
    _, _, facts = text(boundary.body.get("message")).partition("\n")
    try:
        details = mapping(mapping(parse_embedded(facts)).get("compactMetadata"))
    except ValueError:
        return set()
    uuids = listing(mapping(details.get("preservedMessages")).get("uuids"))
    return {uuid for uuid in uuids if isinstance(uuid, str)}


def _while_kept(older: Iterable[LogRow], kept: set[str]) -> Iterator[LogRow]:
    """The rows that were kept. They are directly before the boundary."""
    for row in older:
        if row.kind == "debug_log":
            continue
        if not row.ids & kept:
            return
        yield row
