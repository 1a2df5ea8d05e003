"""Clipping results to a size."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from bench.quality.costs import METER
from historyapp.core.budget import RequestMeter
from historyapp.core.entries import ToolResult, ToolResults
from historyapp.core.episodes import Episode, group_episodes
from historyapp.core.policies import clipping
from historyapp.core.policies.clipping import clip_input, clip_result, clipped_step, fair_share
from historyapp.core.tokens import count_tokens
from tests.core.entries import calls, session

LONG = "\n".join(
    [*(f"{number} collected the same file" for number in range(30_000)), "1 failed: the total\n"]
)


def test_a_long_result_fills_its_room() -> None:
    clipped = clip_result(LONG, 20_000, 1, METER)
    assert 15_000 < METER.text_tokens(clipped) <= 20_000


def test_a_clipped_long_result_keeps_its_first_and_its_last_line() -> None:
    for room in (200, 2_000, 20_000):
        clipped = clip_result(LONG, room, 1, METER)
        assert clipped.startswith("0 collected the same file\n")
        assert "\n1 failed: the total\n[clipped: step 1 has it all]" in clipped
        assert METER.text_tokens(clipped) <= room


def test_of_very_many_lines_only_some_are_considered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clipping, "MAX_LINES_KEPT", 2_000)
    clipped = clip_result(LONG, 100_000, 1, METER)
    assert clipped.startswith("0 collected the same file\n")
    assert "\n999 collected the same file\n…\n28001 collected the same file\n" in clipped
    assert clipped.endswith("\n1 failed: the total\n[clipped: step 1 has it all]")
    clipped = clip_input(LONG, 100_000, METER)
    assert clipped.startswith("0 collected the same file\n1 collected")
    assert clipped.endswith("\n1999 collected the same file\n[…]\n")


def step_of(many: int, text: str) -> Episode:
    ids = [f"call {number}" for number in range(many)]
    results = [ToolResult(tool_call_id=id, status="success", outputs=f"{text} {id}") for id in ids]
    return next(group_episodes(session(calls(*ids), ToolResults(results=tuple(results)))))


@pytest.mark.parametrize("tokens", [0, 500, 2_000])
def test_a_step_whose_calls_leave_no_room_for_texts_is_shortened_once(tokens: int) -> None:
    step, counted = step_of(200, "a longer result\n" * 10), Counter[str]()

    def count(text: str) -> int:
        counted[text] += 1
        return count_tokens(text)

    clipped, _ = clipped_step(step, tokens, replace(METER, count=count))
    assert {str(result.outputs) for result in clipped.results} == {"[clipped: step 1 has it all]"}
    first = str(step.turn.results[0].outputs)
    assert counted[first] == 1


def test_a_step_whose_calls_alone_are_too_long_is_written_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    step, written = step_of(200, "a longer result\n" * 10), list[int]()
    write = RequestMeter.write

    def counted(meter: RequestMeter, part: Any) -> Any:
        rendered = write(meter, part)
        written.append(rendered.tokens)
        return rendered

    monkeypatch.setattr(RequestMeter, "write", counted)
    _, smallest = clipped_step(step, 4_000, METER)
    assert smallest.tokens > 4_000
    assert len([tokens for tokens in written if tokens >= smallest.tokens]) == 2


def test_a_step_with_many_calls_fills_much_of_its_room() -> None:
    step = step_of(50, "\n".join(f"src/module_{number}.py" for number in range(60)))
    for tokens in (2_000, 4_000):
        assert tokens / 2 < clipped_step(step, tokens, METER)[1].tokens <= tokens


def test_small_texts_stay_complete_and_large_ones_share_the_remaining_room() -> None:
    assert fair_share([5, 100, 10, 100], 75) == 30
    assert fair_share([5, 10], 75) == 10
    assert fair_share([7, 7], 5) == 2
    assert fair_share([], 5) == 0
