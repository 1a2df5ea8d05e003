"""Detects whether an agent is probably stuck in a loop, from the rows of the newest steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, Protocol

LoopRule = Literal["same_call_same_result", "alternating_calls", "error_streak"]
WINDOW = 12
"""The number of steps that are examined."""
MIN_SAME, MIN_ALTERNATING, MIN_ERRORS = 4, 8, 6
"""The number of steps from which each rule reports a loop. The overview lists shorter repetitions too."""
_CLIPPED = 200
"""The length of a clipped preview. Texts with equal clipped previews may differ."""


class LoopRow(Protocol):
    """The columns of a step's row that the rules read."""

    @property
    def number(self) -> int: ...
    @property
    def status(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def tool_names(self) -> Sequence[str]: ...
    @property
    def call_preview(self) -> str: ...
    @property
    def result_preview(self) -> str: ...
    @property
    def likely_failure(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Loop:
    """A likely loop that the newest step continues."""

    rule: LoopRule
    steps: list[int]
    tool: str
    target: str
    digest: str
    """A digest of the repeated calls: a loop keeps its digest while it continues."""


def find_loop(rows: Sequence[LoopRow]) -> Loop | None:
    """The likely loop at the end of consecutive steps, or None. ``rows`` are ordered from old to new.

    Calls with a clipped preview are not compared. Equal results count only after the last edit of a file:
    running the same tests again after an edit is not a loop.
    """
    recent = list(rows)[-WINDOW:]
    if not recent or not recent[-1].tool_names:
        return None
    return _same(recent) or _alternating(recent) or _errors(recent)


def _same(rows: Sequence[LoopRow]) -> Loop | None:
    newest = rows[-1]
    edits = [index for index, row in enumerate(rows) if row.kind == "edit" and newest.kind != "edit"]
    since = rows[edits[-1] + 1 :] if edits else rows
    same = [row for row in since if _outcome(row) == _outcome(newest)]
    if len(same) < MIN_SAME or not _is_complete(newest) or len(newest.result_preview) >= _CLIPPED:
        return None
    return _loop("same_call_same_result", same, _call(newest))


def _alternating(rows: Sequence[LoopRow]) -> Loop | None:
    newest = rows[-MIN_ALTERNATING:]
    calls = [_call(row) for row in newest]
    is_alternating = len(newest) == MIN_ALTERNATING and calls[2:] == calls[:-2] and calls[0] != calls[1]
    if not is_alternating or not all(map(_is_complete, newest)):
        return None
    return _loop("alternating_calls", newest, "\n".join(sorted(calls[:2])))


def _errors(rows: Sequence[LoopRow]) -> Loop | None:
    """A streak is reported once, when it reaches the minimum length."""
    newest, before = rows[-MIN_ERRORS:], rows[-MIN_ERRORS - 1 : -MIN_ERRORS]
    if len(newest) < MIN_ERRORS or not all(map(_failed, newest)) or any(map(_failed, before)):
        return None
    return _loop("error_streak", newest, str(newest[0].number))


def _failed(row: LoopRow) -> bool:
    return row.status == "error" or bool(row.likely_failure)


def _is_complete(row: LoopRow) -> bool:
    return 0 < len(row.call_preview) < _CLIPPED


def _call(row: LoopRow) -> str:
    return f"{' '.join(row.tool_names)}\n{row.call_preview}"


def _outcome(row: LoopRow) -> tuple[str, str, str]:
    return _call(row), row.result_preview, row.status


def _loop(rule: LoopRule, rows: Sequence[LoopRow], repeated: str) -> Loop:
    newest = rows[-1]
    digest = blake2b(repeated.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return Loop(rule, [row.number for row in rows], newest.tool_names[0], newest.target, digest)
