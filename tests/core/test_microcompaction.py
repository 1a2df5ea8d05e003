"""Claude Code clears old tool results of large requests. The rule says which."""

import pytest

from historyapp.core.entries import ToolResult
from historyapp.core.microcompaction import STARTS, ClearableResult, clearable_tokens, results_to_clear

LARGE = STARTS + 1


def result(name: str, outputs: str = "x" * 400) -> ToolResult:
    return ToolResult(tool_name=name, status="success", outputs=outputs)


def made(*estimates: int) -> list[ClearableResult]:
    return [ClearableResult(position, size, size) for position, size in enumerate(estimates, 1)]


def cleared(*estimates: int, sent: int = LARGE) -> list[int]:
    return [result.position for result in results_to_clear(made(*estimates), sent)]


def test_the_oldest_results_are_cleared_until_40_000_tokens_are_left() -> None:
    assert cleared(15_000, 15_000, 15_000, 15_000, 9_000, 100, 100) == [1, 2]


def test_the_three_newest_results_stay() -> None:
    assert cleared(25_000, 30_000, 30_000, 30_000) == [1]


def test_nothing_is_cleared_from_a_smaller_request() -> None:
    assert cleared(30_000, 30_000, 30_000, 30_000, sent=STARTS) == []


def test_nothing_is_cleared_if_it_would_save_less_than_20_000_tokens() -> None:
    assert cleared(19_000, 10_000, 10_000, 10_000, 10_000) == []


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.0.67", None), ("1.0.68", 100), ("2.0.76", 100), ("2.1.16", 100), ("2.1.17", None), ("", None),
     ("next", None)],
)  # fmt: skip
def test_only_some_versions_clear_results(version: str, expected: int | None) -> None:
    assert clearable_tokens([result("Read")], version) == expected


def test_results_of_other_tools_are_never_cleared() -> None:
    assert clearable_tokens([result("Task")], "2.1.5") is None
    assert clearable_tokens([result("Task"), result("Bash")], "2.1.5") == 100


def test_an_error_counts_as_its_text() -> None:
    failed = ToolResult(tool_name="Bash", status="error", reason="x" * 80)
    assert clearable_tokens([failed], "2.1.5") == 20
