"""The tokens of a request: the unseen part is computed once, and the other part grows with the log."""

from collections.abc import Sequence
from typing import Any

import pytest

from historyapp.core.microcompaction import ClearableResult, results_to_clear
from historyapp.core.request_tokens import (
    ATTACHED_TOKENS,
    HOSTED_TOKENS,
    MAX_CHECKS,
    RequestTokens,
    count_request,
)
from historyapp.core.sent_tokens import RESULT_FACTOR, RESULT_OVERHEAD, factor_for
from historyapp.core.windows import LogRow
from tests.core.test_windows import AT

MODEL = "gpt-5"


def output(position: int, sent: int | None, *, tokens: int = 10, model: str = MODEL, **usage: Any) -> LogRow:
    reported = {} if sent is None else {"usage": {"input_tokens": sent, **usage}}
    return LogRow(position, "model_output", AT, tokens, {"model": model, **reported}, {})


def results(position: int, tokens: int) -> LogRow:
    return LogRow(position, "tool_results", AT, tokens, {}, {})


def ask(position: int, tokens: int, channel: str = "user") -> LogRow:
    return LogRow(position, "model_input", AT, tokens, {}, {"channel": channel})


def count(*rows: LogRow, instruction: int = 0) -> RequestTokens:
    return count_request(rows[:-1], {"instruction": instruction}, rows[-1])


def test_the_first_request_determines_the_unseen_part() -> None:
    request = count(ask(1, 100), output(2, 12_500))
    assert request.parts == {"person": 100, "unseen": 12_400}
    assert (request.anchor, request.difference) == (2, 0)


def test_later_requests_grow_by_what_was_added() -> None:
    rows = (ask(1, 100), output(2, 12_500, output_tokens=40), results(3, 300), output(4, 12_845))
    request = count(*rows)
    assert request.parts == {"person": 100, "unseen": 12_400, "assistant": 40, "results": 300}
    assert request.difference == 5


def test_without_reported_usage_the_unseen_part_is_unknown() -> None:
    request = count(ask(1, 100), output(2, None))
    assert request.parts == {"person": 100}
    assert (request.reported, request.difference, request.anchor) == (None, None, None)


def test_the_last_request_does_not_change_the_unseen_part() -> None:
    request = count(ask(1, 100), output(2, 12_500), results(3, 10), output(4, 30_000))
    assert request.difference == 30_000 - 12_520
    assert request.jumps == ()


def test_an_unseen_addition_counts_from_the_next_request() -> None:
    rows = (output(1, 10_000), output(2, 20_010), results(3, 90), output(4, 20_110))
    request = count(*rows)
    assert [(jump.position, jump.tokens) for jump in request.jumps] == [(2, 10_000)]
    assert request.difference == 0


def test_an_unseen_removal_is_a_negative_part() -> None:
    rows = (output(1, 10_000), results(2, 30_000), output(3, 5_000), output(4, 5_010))
    request = count(*rows)
    assert (request.parts["unseen"], request.parts["removed"]) == (10_000, -35_010)
    assert request.difference == 0


def test_a_request_smaller_than_the_one_before_has_lost_something_and_fixes_the_unseen_part() -> None:
    rows = (output(1, 50_000), results(2, 30_000), output(3, 80_010), results(4, 100), output(5, 45_000))
    request = count(*rows)
    assert [(jump.position, jump.reason) for jump in request.jumps] == [(5, "removed")]
    assert (request.anchor, request.difference) == (5, 0)
    assert request.parts["unseen"] == 50_000
    assert request.parts["removed"] == -35_120


def test_a_request_that_is_smaller_without_earlier_reasoning_has_lost_nothing() -> None:
    spent: dict[str, Any] = {"output_tokens": 20_000, "output_tokens_details": {"reasoning_tokens": 19_000}}
    request = count(
        output(1, 50_000, **spent), results(2, 0), output(3, 70_000), ask(4, 0), output(5, 51_010)
    )
    assert (request.jumps, request.difference) == ((), 0)


@pytest.mark.parametrize(
    ("content", "reason"),
    [("Read @docs/plan.md first.", "attached"), ("@plan.md", "attached"), ("Ask @anna.", "unknown"),
     ("mail a@b.org", "unknown"), ("Go on.", "unknown")],
)  # fmt: skip
def test_files_that_an_input_names_explain_a_larger_request(content: str, reason: str) -> None:
    named = LogRow(2, "model_input", AT, 5, {}, {"channel": "user", "content": content})
    request = count(output(1, 20_000), named, output(3, 30_000), output(4, 30_010))
    assert [jump.reason for jump in request.jumps] == [reason]
    assert request.anchor == (3 if reason == "attached" else 1)


@pytest.mark.parametrize("searched_in", [1, 3])
def test_results_of_a_provider_search_stay_in_the_request(searched_in: int) -> None:
    def row(position: int, sent: int) -> LogRow:
        facts = output(position, sent)
        hosted = {"source": {"hosted": 1}} if position == searched_in else {}
        return facts._replace(metadata={**facts.metadata, **hosted})

    request = count(row(1, 20_000), results(2, 10), row(3, 30_000), row(4, 30_010), row(5, 30_020))
    assert (request.jumps[0].position, request.jumps[0].reason) == (3, "hosted")
    assert {jump.reason for jump in request.jumps} == {"hosted"}
    assert request.parts["unseen"] == 30_000 - 10 - 10
    assert request.difference == 0


def test_a_provider_search_is_expected_to_add_tokens() -> None:
    searched = output(3, None)._replace(metadata={"model": MODEL, "source": {"hosted": 2}})
    unreported = count(output(1, 20_000), results(2, 10), searched, output(4, None))
    assert unreported.parts["unseen"] == 20_000 + 2 * HOSTED_TOKENS


@pytest.mark.parametrize("hosted", [True, -3, "2", 10**9, None])
def test_a_strange_number_of_searches_adds_nothing(hosted: Any) -> None:
    searched = output(2, None)._replace(metadata={"source": {"hosted": hosted}})
    assert count(output(1, 20_000), searched, output(3, None)).parts["unseen"] == 20_000


def named(position: int, content: str, format: str = "claude_code") -> LogRow:
    metadata = {"source": {"format": format}}
    return LogRow(position, "model_input", AT, 5, metadata, {"channel": "meta", "content": content})


def attached(position: int) -> LogRow:
    body = {"channel": "meta", "content": "text", "raw_input": {"type": "file"}}
    return LogRow(position, "model_input", AT, 700, {}, body)


EXPECTED = round(ATTACHED_TOKENS * RESULT_FACTOR)


@pytest.mark.parametrize(
    ("content", "files"),
    [("@docs/plan.md", 1), ("@plan.md and @.planning/STATE.md.", 2), ("@docs/plan.md @docs/plan.md", 1),
     ("@app.task", 0), ("@scope/package", 0), ("mail a@b.md", 0)],
)  # fmt: skip
def test_files_that_claude_code_attaches_have_an_expected_size(content: str, files: int) -> None:
    request = count(output(1, 20_000), named(2, content), output(3, None))
    assert request.parts["unseen"] == 20_000 + files * EXPECTED


def test_a_report_replaces_the_expected_size_of_files() -> None:
    request = count(output(1, 20_000), named(2, "@docs/plan.md"), output(3, 20_905), output(4, 20_906))
    assert [(jump.position, jump.tokens, jump.reason) for jump in request.jumps] == [
        (3, 890 - EXPECTED, "attached")
    ]
    assert (request.anchor, request.parts["unseen"]) == (3, 20_890)


def test_files_that_the_transcript_contains_are_not_expected_again() -> None:
    rows = (output(1, 20_000), named(2, "@docs/plan.md"), attached(3), output(4, None))
    assert count(*rows).parts["unseen"] == 20_000
    later = (output(1, 20_000), attached(2), output(3, None), named(4, "@docs/plan.md"), output(5, None))
    assert count(*later).parts["unseen"] == 20_000


def test_only_claude_code_attaches_files() -> None:
    request = count(output(1, 20_000), named(2, "@docs/plan.md", "codex_rollout"), output(3, None))
    assert request.parts["unseen"] == 20_000


def resume(position: int) -> LogRow:
    return ask(position, 5)._replace(metadata={"source": {"resumed": True}})


def test_a_new_process_begins_a_window() -> None:
    request = count(output(1, 50_000), resume(2), output(3, 49_000), output(4, 49_010))
    assert [(jump.position, jump.tokens, jump.reason) for jump in request.jumps] == [(3, -1_015, "resumed")]
    assert (request.anchor, request.difference) == (3, 0)


def test_a_new_process_follows_an_exit() -> None:
    text = "<command-name>/exit</command-name>\n<command-message>exit</command-message>"
    body = {"channel": "command", "content": text}
    request = count(output(1, 50_000), ask(2, 5)._replace(body=body), output(3, 49_000))
    assert [jump.reason for jump in request.jumps] == ["resumed"]


def test_another_model_begins_a_window() -> None:
    other = "claude-sonnet-4-5"
    request = count(output(1, 50_000), output(2, 50_500, model=other), output(3, 50_520, model=other))
    assert [(jump.position, jump.reason) for jump in request.jumps] == [(2, "model")]
    assert request.anchor == 2


CLAUDE = "claude-opus-4-5"


def read(position: int, estimate: int) -> LogRow:
    return results(position, estimate)._replace(metadata={"source": {"clearable": estimate}})


def large_request(*rows: LogRow) -> RequestTokens:
    reads = [read(position, 15_000) for position in range(2, 9)]
    return count(output(1, 20_000, model=CLAUDE), *reads, output(9, 135_955, model=CLAUDE), *rows)


def test_results_that_claude_code_cleared_are_not_in_the_request() -> None:
    request = large_request(output(10, 70_000, model=CLAUDE), output(11, 70_010, model=CLAUDE))
    assert request.cleared == (2, 3, 4, 5)
    assert [(jump.position, jump.tokens) for jump in request.jumps] == [(10, -4 * (16_500 - 8))]
    assert request.parts["removed"] == -4 * (16_500 - 8)
    assert request.anchor == 1


def test_results_are_looked_through_for_cleared_ones_a_limited_number_of_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All results of a window, once for each request that is smaller than the one before, took minutes."""
    numbers = list[int]()

    def clear(present: Sequence[ClearableResult], sent: int) -> Sequence[ClearableResult]:
        numbers.append(len(present))
        return results_to_clear(present, sent)

    monkeypatch.setattr("historyapp.core.request_tokens.results_to_clear", clear)
    rows = [output(10 + n, 400_000 - n, model=CLAUDE) for n in range(3 * MAX_CHECKS)]
    assert large_request(output(9, 400_001, model=CLAUDE), *rows).cleared == (2, 3, 4, 5)
    assert numbers == [7, *[3] * (MAX_CHECKS - 1)]


def test_nothing_was_cleared_from_a_request_that_did_not_shrink() -> None:
    request = large_request(output(10, 135_980, model=CLAUDE))
    assert (request.cleared, request.jumps) == ((), ())


def test_a_new_process_sends_cleared_results_again() -> None:
    rows = output(10, 70_000, model=CLAUDE), resume(11), output(12, 136_000, model=CLAUDE)
    request = large_request(*rows)
    assert request.cleared == ()
    assert "removed" not in request.parts


def test_a_growing_counting_error_is_not_a_jump() -> None:
    rows = [output(n, 100_000 + 1_500 * n) for n in range(1, 20)]
    assert count(*rows).jumps == ()


@pytest.mark.parametrize(("model", "expected"), [("gpt-5", 60), ("claude-opus-4-6", 100)])
def test_reasoning_of_earlier_turns_is_not_sent_to_openai_again(model: str, expected: int) -> None:
    spent = {"output_tokens": 100, "output_tokens_details": {"reasoning_tokens": 40}}
    first = LogRow(1, "model_output", AT, 10, {"model": model, "usage": {"input_tokens": 500, **spent}}, {})
    within = count(first, results(2, 0), output(3, 600, model=model))
    assert within.parts["assistant"] == 100
    after = count(first, ask(2, 0), output(3, 600, model=model))
    assert after.parts["assistant"] == expected


def test_gemini_cli_never_sends_thoughts_back() -> None:
    usage = {"input": 20_000, "output": 60, "thoughts": 700}
    first = LogRow(1, "model_output", AT, 300, {"usage": usage, "usage_convention": "gemini"}, {})
    assert count(first, results(2, 0), output(3, 20_060)).parts["assistant"] == 60


def test_usage_of_codex_names_its_reasoning() -> None:
    usage: dict[str, Any] = {"output_tokens": 100, "reasoning_output_tokens": 40}
    request = count(output(1, 500, **usage), ask(2, 0), output(3, 560))
    assert request.parts["assistant"] == 60


def test_only_the_text_of_an_earlier_turn_with_unknown_reasoning_counts() -> None:
    request = count(output(1, 500, tokens=30, output_tokens=100), ask(2, 0), output(3, 560))
    assert request.parts["assistant"] == 30


def test_an_output_is_never_smaller_than_its_text() -> None:
    request = count(output(1, 500, tokens=200, output_tokens=1), output(2, 700))
    assert request.parts["assistant"] == 200


def test_channels_distinguish_people_harnesses_and_summaries() -> None:
    request = count(ask(1, 5), ask(2, 6, "meta"), ask(3, 7, "compaction"), output(4, None), instruction=8)
    assert request.parts == {"person": 5, "harness": 6, "summary": 7, "instruction": 8}


@pytest.mark.parametrize(
    ("model", "factor"),
    [("gpt-5.4", 1.0), ("openai:gpt-5", 1.0), ("claude-opus-4-8", 1.55), ("anthropic/claude-opus-4-6", 1.17),
     ("claude-sonnet-5-20260101", 1.55), ("minimax-m2", 1.1), ("", 1.1)],
)  # fmt: skip
def test_texts_count_by_the_factor_of_the_model(model: str, factor: float) -> None:
    assert factor_for(model) == factor


@pytest.mark.parametrize(
    ("model", "expected"), [(MODEL, 200), (CLAUDE, 220 + 2 * RESULT_OVERHEAD), ("claude-opus-5", 310)]
)
def test_results_of_older_claude_models_have_an_overhead(model: str, expected: int) -> None:
    request = count(results(1, 100), results(2, 100), output(3, None, model=model))
    assert request.parts == {"results": expected}
