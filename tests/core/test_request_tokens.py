"""The tokens of a request: the unseen part is computed once, and the other part grows with the log."""

from typing import Any

import pytest

from historyapp.core.request_tokens import RequestTokens, count_request, factor_for
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

    request = count(row(1, 20_000), results(2, 10), row(3, 30_000), row(4, 30_010))
    assert [(jump.position, jump.reason) for jump in request.jumps] == [(3, "hosted")]
    assert request.anchor == 3


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
    [("gpt-5.4", 1.0), ("openai:gpt-5", 1.0), ("claude-opus-4-8", 1.55), ("anthropic/claude-opus-4-6", 1.2),
     ("claude-sonnet-5-20260101", 1.55), ("minimax-m2", 1.1), ("", 1.1)],
)  # fmt: skip
def test_texts_count_by_the_factor_of_the_model(model: str, factor: float) -> None:
    assert factor_for(model) == factor
