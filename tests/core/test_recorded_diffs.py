"""Diffs that agents recorded beside the results of their edits."""

from typing import Any

import pytest

from historyapp.core.edited_lines import LineCount
from historyapp.core.recorded_diffs import (
    MAX_DIFF,
    RECORDED_DIFFS,
    diff_fields,
    diff_of_hunks,
    recorded_diffs,
)

DIFF = "Index: a\n====\n--- a\tOriginal\n+++ a\tWritten\n@@ -1,2 +1,3 @@\n-x\n+y\n+--- z\n kept\n"
PARTS = "@@ -1,2 +1,3 @@\n-x\n+y\n+--- z\n kept"


def test_a_diff_is_kept_without_its_head_and_with_its_lines() -> None:
    fields = diff_fields(DIFF)
    assert fields == {"added": 2, "removed": 1, "diff": PARTS}
    assert recorded_diffs({"recorded_diffs": {"1": fields}}) == {"1": (LineCount(2, 1), PARTS)}
    assert diff_fields("no diff") is None
    assert diff_fields("@@ -1 +1 @@\n same") is None


def test_only_the_lines_of_a_long_diff_are_counted() -> None:
    fields = diff_fields("@@ -0,0 +1,9 @@\n" + "+x\n" * MAX_DIFF)
    assert fields == {"added": MAX_DIFF, "removed": 0}
    assert recorded_diffs({"recorded_diffs": {"1": fields}})["1"].text == ""


NO_BREAK = "\\ No newline at end of file"


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (["-docs", NO_BREAK, "+docs", "+!docs/a", NO_BREAK], (1, 0)),
        (["-docs", "-!docs/a", NO_BREAK, "+docs", NO_BREAK], (0, 1)),
        (["-docs", NO_BREAK, "+docs"], (0, 0)),
        ([" a", "-docs", "+docs", NO_BREAK], (0, 0)),
        (["-docs", NO_BREAK, "+logs", NO_BREAK], (1, 1)),
        (["-a", "+b", " docs", NO_BREAK], (1, 1)),
    ],
)
def test_a_last_line_that_only_gets_or_loses_its_line_break_does_not_count(
    lines: list[str], count: tuple[int, int]
) -> None:
    diff = "\n".join(["@@ -1,2 +1,2 @@", *lines])
    [(read, shown)] = recorded_diffs({RECORDED_DIFFS: {"1": diff_fields(diff)}}).values()
    assert read == count
    assert shown == diff
    long = diff_fields("@@ -1 +1 @@\n " + MAX_DIFF * "x" + "\n" + diff)
    assert long == {"added": count[0], "removed": count[1]}


def test_the_parts_of_claude_code_become_a_diff() -> None:
    hunk = {"oldStart": 3, "oldLines": 2, "newStart": 3, "newLines": 1, "lines": [" a", "-b"]}
    assert diff_of_hunks([hunk, hunk]) == "@@ -3,2 +3,1 @@\n a\n-b\n@@ -3,2 +3,1 @@\n a\n-b"
    assert diff_of_hunks([{"lines": ["+a"]}]) == ""


@pytest.mark.parametrize(
    "diffs",
    [None, "x", {"1": None}, {"1": {"added": -1, "removed": 0}}, {"1": {"added": True, "removed": 0}}],
)
def test_metadata_of_another_shape_are_no_diff(diffs: Any) -> None:
    assert recorded_diffs({"recorded_diffs": diffs}) == {}
