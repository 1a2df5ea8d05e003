"""How the lines of a file were used: the parts add up to its lines, for every line-based format."""

from typing import Any

import pytest

from historyapp.core.entries import EntryDraft, ModelInput
from historyapp.core.importers.base import Append, LinesRead, Skipped
from historyapp.services.imports.files import inspect_file
from historyapp.services.imports.lines import MAX_LINES, FileLines
from tests.core.importers.reading import lines as as_lines
from tests.core.importers.reading import source
from tests.core.importers.samples import FILES, LINES

LINE_BASED = {"claude_code", "codex_rollout", "gemini_cli", "playhead_jsonl"}


def append(line: Any) -> Append:
    return Append("s", EntryDraft(ModelInput(content="x"), None, {"source": {"line": line}}))


def test_lines_are_counted_once_and_add_up() -> None:
    lines = FileLines("codex_rollout")
    for operation in (append(2), append(2), append(9), Skipped(3, "x"), Skipped(3, "y"), Skipped(9, "z")):
        lines.add(operation)
    assert lines.counts is None, "the file was not read to its end"
    lines.add(append(12), is_used=False)
    lines.add(LinesRead(12, 1))
    assert lines.counts == (12, 2, 7, 2, 1)


@pytest.mark.parametrize("line", [0, -5, MAX_LINES + 1, 10**15, "7", None, 1.5])
def test_a_line_that_a_file_cannot_have_takes_no_memory(line: Any) -> None:
    lines = FileLines("codex_rollout")
    lines.add(append(line))
    assert len(lines._used) == 0


def test_more_entries_than_lines_are_no_count() -> None:
    lines = FileLines("codex_rollout")
    for number in range(1, 5):
        lines.add(append(number))
    lines.add(LinesRead(3, 0))
    assert lines.counts is None


@pytest.mark.parametrize(("name", "records"), LINES)
def test_the_parts_add_up_to_the_lines_of_the_file(name: str, records: list[Any]) -> None:
    report = inspect_file(source(as_lines(*records) + "\n\n{broken", f"{name}.jsonl"))
    assert not report.error
    counts = report.lines.counts
    assert (counts is not None) is (report.format in LINE_BASED)
    if counts is not None:
        assert counts.total == sum(counts[1:]) == len(records) + 2
        assert counts.with_entries
        assert counts.left_out >= 1
        assert counts.blank == 1


def test_a_document_has_no_lines() -> None:
    reports = [inspect_file(source(data, "run.json")) for name, data in FILES[:1]]
    assert [report.lines.counts for report in reports] == [None]
