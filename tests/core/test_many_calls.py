"""Pairing stays linear: transcripts may hold any number of calls and results in one step."""

from collections.abc import Sequence
from time import process_time

import pytest

from historyapp.core.conversation import late_results
from historyapp.core.entries import ToolResult, ToolResults
from historyapp.core.episodes import Episode, group_episodes
from historyapp.core.formats import FORMATS
from tests.core.entries import calls, session

MANY = 10_000
SECONDS = 5
"""Comparing each with each other one takes over a minute."""


def step_of(ids: Sequence[str | None]) -> Episode:
    results = [ToolResult(tool_call_id=id, status="success", outputs=n) for n, id in enumerate(ids)]
    output = calls(*(f"ä{n}" for n in range(MANY)))
    return next(group_episodes(session(output, ToolResults(results=tuple(results)))))


@pytest.mark.parametrize("named", [True, False])
def test_results_of_many_calls_are_paired_and_written_in_linear_time(named: bool) -> None:
    started = process_time()
    step = step_of([f"ä{n}" if named else None for n in range(MANY)])
    assert step.status == "success"
    assert [result.outputs for result in step.turn.results] == list(range(MANY))
    assert step.result
    assert str(step.result.outputs).endswith(f"look ({MANY} of {MANY}): {MANY - 1}")
    format = FORMATS["openai_chat"]
    assert len(list(format.joined([format.write(step.turn)]))) == MANY + 1
    assert process_time() - started < SECONDS


def test_many_late_results_are_compared_in_linear_time() -> None:
    started = process_time()
    step = step_of([f"late {n}" for n in range(MANY)] * 2)
    assert len(late_results(step.received)) == 2 * MANY
    assert process_time() - started < SECONDS


def test_exact_repetitions_of_a_late_result_are_shown_once() -> None:
    late = ToolResult(tool_call_id="late", status="success", outputs={"text": "\ud800"})
    received = (ToolResults(results=(late, late)), ToolResults(results=(late,)))
    (step,) = group_episodes(session(calls("a"), *received))
    assert step.late == (late,)
