"""Episodes as values."""

from itertools import permutations

import pytest

from historyapp.core.conversation import PairedResult
from historyapp.core.entries import ModelOutput, ToolCall, ToolResult
from historyapp.core.episodes import combine, group_episodes
from historyapp.core.rendering import long_form
from tests.core.entries import calls, result, session

OUTPUT = ModelOutput(tool_calls=tuple(ToolCall(id=id, name="read", arguments={"at": id}) for id in "abc"))
SUCCESS = PairedResult(ToolResult(tool_name="read", status="success", outputs="text"), ("a",))
SKIPPED = PairedResult(ToolResult(tool_name="read", status="skipped", reason="not needed"), ("b",))
ERROR = PairedResult(ToolResult(tool_name="read", status="error", reason="red"), ("b",))
STOPPED = PairedResult(ToolResult(tool_name="read", status="interrupted_by_human", feedback="no"), ("c",))


@pytest.mark.parametrize(
    ("results", "worst"),
    [
        ((SUCCESS, SKIPPED), "success"),
        ((SUCCESS, SKIPPED, ERROR), "error"),
        ((SUCCESS, ERROR, STOPPED), "interrupted_by_human"),
    ],
)
def test_several_results_joined_have_the_worst_status(results: tuple[PairedResult, ...], worst: str) -> None:
    for order in permutations(results):
        combined = combine(OUTPUT, order)
        assert combined
        assert combined.status == worst


def test_several_results_joined_keep_every_text_under_its_call() -> None:
    """Parallel calls often have the same name: their numbers distinguish them."""
    combined = combine(OUTPUT, (SUCCESS, ERROR))
    assert combined
    assert combined.reason == "read (1 of 3): text\nread (2 of 3): Action failed: 'red'"


def test_a_single_result_is_unchanged() -> None:
    assert combine(OUTPUT, (SUCCESS,)) is SUCCESS.result
    assert combine(OUTPUT, ()) is None


def test_results_that_answer_no_open_call_are_kept_with_the_step_of_their_arrival() -> None:
    log = session(calls("a"), calls("b"), result("a", "late"), result("b"), result("b", "again"))
    first, second = group_episodes(log)
    assert (first.status, first.unpaired_results) == ("abandoned", ())
    assert [result.outputs for result in second.unpaired_results] == ["late", "again"]
    assert (second.status, second.last_position) == ("success", 5)
    assert "- **Late result:** late\n- **Late result:** again\n" in long_form(second)
