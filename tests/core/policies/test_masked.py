from dataclasses import replace

from historyapp.core.budget import RequestMeter
from historyapp.core.context import Context
from historyapp.core.entries import Body, ModelInput
from historyapp.core.formats import FORMATS, prefix_bytes
from historyapp.core.policies.masked import MASKED, PLACEHOLDER
from historyapp.core.settings import SessionSettings
from tests.core.entries import calls, result, session
from tests.core.formats.contexts import messages_of
from tests.core.policies.past import MemoryPast

LONG = "a long result " * 20


def steps(count: int) -> list[Body]:
    turns: list[Body] = [b for i in range(count) for b in (calls(str(i)), result(str(i), LONG))]
    return [ModelInput(content="go"), *turns]


def choose(bodies: list[Body], max_tokens: int | None = None, window: int = 2) -> Context:
    chosen = SessionSettings(max_tokens=max_tokens, window_size=window)
    return MASKED.choose(MemoryPast(session(*bodies)), chosen, RequestMeter())


def test_older_results_are_placeholders_that_name_their_step() -> None:
    context = choose(steps(4))
    results = [message["content"] for message in messages_of(context) if message["role"] == "tool"]
    assert results == [PLACEHOLDER.format(1), PLACEHOLDER.format(2), LONG, LONG]
    forms = [segment.form for segment in context.manifest.segments if segment.source == "step"]
    assert forms == ["masked", "masked", "full", "full"]


def test_a_result_that_is_shorter_than_its_placeholder_stays() -> None:
    bodies = [calls("a"), result("a", "ok"), *steps(2)[1:]]
    assert "ok" in [message["content"] for message in messages_of(choose(bodies))]


def test_parallel_results_count_separately() -> None:
    bodies: list[Body] = [
        calls("x"),
        result("x", LONG),
        calls("a", "b"),
        result("a", LONG),
        result("b", LONG),
    ]
    results = [message["content"] for message in messages_of(choose(bodies)) if message["role"] == "tool"]
    assert results == [PLACEHOLDER.format(1), LONG, LONG]


def test_masked_parts_are_unchanged_at_the_next_step() -> None:
    before, after = choose(steps(6)), choose(steps(7))
    assert before.stable == 1 + 4
    assert before.parts[: before.stable] == after.parts[: before.stable]
    kept = replace(before, parts=before.parts[: before.stable])
    beginning = prefix_bytes(FORMATS["openai_chat"].request(kept))
    assert prefix_bytes(FORMATS["openai_chat"].request(after)).startswith(beginning[:-2])


def test_over_the_budget_the_oldest_steps_are_removed() -> None:
    context = choose(steps(12), 300)
    assert context.manifest.tokens <= 300
    assert 1 in [out.first_step for out in context.manifest.left_out]
    assert context.stable == 0
