"""Accounts for every line of a file, so that a person can compare an import with the file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from historyapp.core.importers.base import Append, LinesRead, Operation, Skipped
from historyapp.core.importers.playhead_jsonl import PLAYHEAD_JSONL

MAX_LINES = 2**27
"""Lines beyond this one are not counted. Each line takes a bit, and an entry of a file may name any line."""


class LineCounts(NamedTuple):
    """How the lines of a file were used. The parts add up to ``total``."""

    total: int
    with_entries: int
    """Lines with which an entry begins."""
    further: int
    """Lines that continue an entry of another line, or describe the session."""
    left_out: int
    """Lines that were skipped."""
    blank: int


@dataclass(slots=True)
class FileLines:
    """The lines of a file for which operations were read."""

    format: str = ""
    read: LinesRead | None = None
    """None until the file was read to its end, and for files that are not read line by line."""
    own: int = 0
    """Entries that are a line of their own. Their metadata names a line of another file."""
    _used: bytearray = field(default_factory=bytearray)
    _skipped: bytearray = field(default_factory=bytearray)

    def add(self, operation: Operation, *, is_used: bool = True) -> None:
        """Adds the line of an operation.

        Args:
            is_used: whether the operation's session is imported from this file.
        """
        match operation:
            case Append(draft=draft) if self.format == PLAYHEAD_JSONL.name:
                self.own += 1
            case Append(draft=draft):
                source = draft.metadata.get("source")
                line = source.get("line") if isinstance(source, Mapping) else None
                if isinstance(line, int):
                    _mark(self._used if is_used else self._skipped, line)
            case Skipped(line=line):
                _mark(self._skipped, line)
            case LinesRead():
                self.read = operation

    @property
    def counts(self) -> LineCounts | None:
        """None if the lines of the file are not known."""
        if self.read is None or self.read.total > MAX_LINES:
            return None
        used, skipped = (int.from_bytes(lines, "little") for lines in (self._used, self._skipped))
        with_entries, left_out = self.own + used.bit_count(), (skipped & ~used).bit_count()
        total, blank = self.read.total, self.read.blank
        further = total - blank - with_entries - left_out
        return LineCounts(total, with_entries, further, left_out, blank) if further >= 0 else None


def _mark(lines: bytearray, number: int) -> None:
    if 0 < number <= MAX_LINES:
        index, bit = divmod(number, 8)
        if index >= len(lines):
            lines.extend(bytes(index + 1 - len(lines)))
        lines[index] |= 1 << bit
