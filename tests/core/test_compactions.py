"""Which entries a compaction removes, and which it keeps."""

import json
from typing import Any
from unittest.mock import Mock

import pytest

from historyapp.core import compactions
from historyapp.core.compactions import KEPT_ROWS, RemovedEntries
from historyapp.core.dates import UNDATED
from historyapp.core.windows import LogRow, find_window


def row(position: int, kind: str = "tool_results", body: Any = None, **source: Any) -> LogRow:
    return LogRow(position, kind, UNDATED, 1, {"source": source}, body or {})


def summary(position: int) -> LogRow:
    return row(position, "model_input", {"channel": "compaction", "content": "so far"})


def gone(seen: RemovedEntries, last: int) -> list[int]:
    return [position for position in range(1, last + 1) if seen.is_removed(position)]


def test_before_any_compaction_no_entry_is_removed() -> None:
    seen = RemovedEntries([row(2), row(1)])
    seen.add(row(3))
    assert gone(seen, 3) == []


def test_entries_before_a_summary_are_removed() -> None:
    seen = RemovedEntries([row(2), row(1)])
    seen.add(summary(3))
    seen.add(row(4))
    assert gone(seen, 4) == [1, 2]
    assert gone(RemovedEntries([row(4), summary(3), row(2), row(1)]), 4) == [1, 2]


def test_entries_preserved_beside_a_summary_are_kept() -> None:
    facts = json.dumps({"compactMetadata": {"preservedMessages": {"uuids": ["b"]}}})
    boundary = row(3, "debug_log", {"category": "compaction", "message": f"compacted\n{facts}"})
    seen = RemovedEntries([row(2, uuid="b"), row(1, uuid="a")])
    for each in (boundary, summary(4)):
        seen.add(each)
    assert gone(seen, 4) == [1, 3]


def test_entries_that_a_condenser_forgot_stay_removed() -> None:
    seen = RemovedEntries([row(3, id=3), row(2, id=2), row(1, id=1)])
    seen.add(row(4, "debug_log", {"message": ""}, condensed={"forgotten": ["2"]}))
    seen.add(row(5, id=5))
    seen.add(row(6, "debug_log", {"message": ""}, condensed={"forgotten": ["3"]}))
    assert gone(seen, 5) == [2, 3]


def test_clearing_removes_earlier_entries() -> None:
    seen = RemovedEntries([row(1)])
    seen.add(row(2, "model_input", {"channel": "command", "content": "<command-name>/clear</command-name>"}))
    assert gone(seen, 2) == [1]


def test_a_hook_that_reports_clearing_removes_earlier_entries() -> None:
    seen = RemovedEntries([row(1)])
    seen.add(row(2, "debug_log", {"category": "clear", "message": "The context was cleared."}))
    assert gone(seen, 2) == [1]


def test_a_bounded_number_of_rows_is_read() -> None:
    rows = (row(position) for position in range(KEPT_ROWS + 5, 0, -1))
    RemovedEntries(rows)
    assert next(rows).position == 5


def test_replacements_are_read_when_somebody_asks_or_after_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reading looks at a thousand rows, and each row of a log may be a replacement."""
    read = Mock(side_effect=find_window)
    monkeypatch.setattr(compactions, "find_window", read)
    seen = RemovedEntries([row(1, id=1)])
    for position in range(2, 1_002):
        seen.add(row(position, "debug_log", {"message": ""}, condensed={"first": position, "last": position}))
    seen.add(row(1_002, "debug_log", {"message": ""}, condensed={"forgotten": ["1"]}))
    assert read.call_count < 10
    assert seen.is_removed(1)


def test_after_a_rewind_the_rest_is_as_if_read_again() -> None:
    rows = [row(1, id=1), row(2, id=2), row(3, "debug_log", {}, condensed={"forgotten": ["2"]})]
    rows += [summary(4), *(row(position, id=position) for position in range(5, 20))]
    seen = RemovedEntries()
    for each in rows:
        seen.add(each)
    assert seen.cut(8)
    seen.add(row(21))
    assert gone(seen, 21) == gone(RemovedEntries([row(21), *rows[7::-1]]), 21) == [1, 2, 3]


def test_a_rewind_that_cuts_off_a_compaction_needs_the_rows_again() -> None:
    seen = RemovedEntries(row(position) for position in range(9, 0, -1))
    seen.add(summary(10))
    seen.add(row(11))
    assert seen.cut(10)
    assert not seen.cut(9)


@pytest.mark.parametrize("count", [KEPT_ROWS, 2 * KEPT_ROWS])
def test_a_rewind_that_leaves_too_few_rows_needs_them_again(count: int) -> None:
    last = 5 * KEPT_ROWS
    seen = RemovedEntries((row(position) for position in range(last, 0, -1)), count)
    assert seen.cut(last - count + KEPT_ROWS)
    assert not seen.cut(last - count + KEPT_ROWS - 1)


def test_rows_that_were_dropped_for_newer_ones_are_needed_again() -> None:
    seen = RemovedEntries(row(position) for position in range(10, 0, -1))
    for position in range(11, 3 * KEPT_ROWS):
        seen.add(row(position))
    assert seen.cut(2 * KEPT_ROWS)
    assert not seen.cut(2 * KEPT_ROWS - 2)
