"""Signed and encrypted reasoning is sent unchanged after the request that it was made from, or not at all."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from historyapp.core.budget import RequestMeter
from historyapp.core.context import Context
from historyapp.core.entries import ModelInput, ToolResult, ToolResults
from historyapp.core.episodes import group_episodes
from historyapp.core.formats import FORMATS, prefix_bytes
from historyapp.core.formats.reasoning import own_blocks
from historyapp.core.json import compact_json
from historyapp.core.policies import POLICIES
from tests.core.formats.validators import validate
from tests.core.policies.signed_runs import BINDING, ContextRequest, Run, runs
from tests.examples import examples

EVERY = pytest.mark.parametrize("policy", POLICIES)
BOTH = pytest.mark.parametrize("format", BINDING)
SEPARATORS = {"anthropic_messages": ']},{"role":"assistant","content":[', "openai_responses": ","}


def kept_steps(run: Run, format: str, request: bytes) -> set[int]:
    """The numbers of the steps whose reasoning is in a request. Checks that it is complete for each."""
    kept = set()
    for episode in group_episodes(run.live):
        are_kept = [
            compact_json(block).encode() in request for block in own_blocks(FORMATS[format], episode.output)
        ]
        assert all(are_kept) or not any(are_kept)
        kept |= {episode.number} if any(are_kept) else set()
    return kept


def without_tools(request: bytes) -> bytes:
    """A request without its tools, because an agent's own tools are not in the log."""
    fields = json.loads(request)
    return compact_json({name: fields[name] for name in fields if name != "tools"}).encode()


def check_bytes(run: Run, format: str, request: bytes) -> None:
    """Each block is as it was recorded, and follows the request in which it was made."""
    closing = len(FORMATS[format].closing)
    kept = kept_steps(run, format, request)
    for episode in group_episodes(run.live):
        if episode.number not in kept:
            continue
        recorded_answer = run.made[episode.first_position]
        assert recorded_answer.format == format
        sent = request if recorded_answer.is_snapshot else without_tools(request)
        before = recorded_answer.request[:-closing] + SEPARATORS[format].encode()
        for block in own_blocks(FORMATS[format], episode.output):
            written = compact_json(block).encode()
            assert sent.startswith(before + written)
            assert request.count(written) == 1
            before += written + b","


def check_turns(run: Run, format: str, kept: set[int]) -> None:
    """Reasoning is left out by whole turns."""
    turns: list[list[int]] = [[]]
    inputs = [entry.position for entry in run.live if entry.body.is_input]
    end = 0
    for episode in group_episodes(run.live):
        if any(end < position < episode.first_position for position in inputs):
            turns.append([])
        if own_blocks(FORMATS[format], episode.output):
            turns[-1].append(episode.number)
        if not episode.output.tool_calls or episode.turn.remarks:
            turns.append([])
        end = episode.first_position
    for turn in turns:
        assert not kept & set(turn) or kept >= set(turn)


def check_account(run: Run, context: Context, format: str, kept: set[int]) -> None:
    """The manifest counts what is left out of the steps that are messages."""
    blocks = {episode.number: len(episode.output.reasoning) for episode in group_episodes(run.live)}
    shown = {s.step for s in context.manifest.segments if s.source == "step" and not s.last_step and s.step}
    left_out = context.manifest.reasoning_left_out
    assert all(out.reason and out.first_step <= out.last_step for out in left_out)
    counted = sum(out.blocks for out in left_out)
    assert counted <= sum(blocks[step] for step in shown - kept)
    if context.manifest.policy != "episodic":  # whose older steps are lines of one message
        assert counted == sum(blocks[step] for step in shown - kept)


@EVERY
@BOTH
@settings(max_examples=examples(200, minimum=5, part=40), suppress_health_check=list(HealthCheck))
@given(run=runs(), budget=st.none() | st.none() | st.integers(60, 800), with_tools=st.booleans())
def test_sent_reasoning_and_everything_before_it_is_unchanged(
    policy: str, format: str, run: Run, budget: int | None, with_tools: bool
) -> None:
    built = ContextRequest(policy, format, budget, with_tools).build(run)
    if built is None:
        return
    context, request = built
    validate(format, request)
    manifest = context.manifest
    assert manifest.tokens == RequestMeter(format).request_tokens(request)
    assert budget is None or manifest.tokens <= budget
    written = prefix_bytes(request)
    check_bytes(run, format, written)
    kept = kept_steps(run, format, written)
    check_turns(run, format, kept)
    check_account(run, context, format, kept)


ANSWERS = st.lists(
    st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from([0, 1, 2]), st.sampled_from([0, 3, 40])),
    min_size=1,
    max_size=6,
)


def answers_of(run: Run, format: str) -> list[int]:
    """The steps with reasoning of a format."""
    steps = group_episodes(run.live)
    return [step.number for step in steps if own_blocks(FORMATS[format], step.output)]


@BOTH
@pytest.mark.parametrize("policy", ["live", "budgeted"])
@settings(max_examples=examples(200, part=20))
@given(turns=st.lists(ANSWERS, max_size=4), is_served=st.booleans())
def test_a_history_in_full_keeps_all_reasoning(
    policy: str, format: str, turns: list[list[tuple[int, int, int]]], is_served: bool
) -> None:
    run = Run()
    for turn in turns:
        run.add(person(run))
        for place, (blocks, calls, words) in enumerate(turn):
            goes_on = place < len(turn) - 1  # an answer without calls is followed by an input
            built = ContextRequest(policy, format).build(run)
            assert built
            request = prefix_bytes(built[1]) if is_served else run.full_request(format)
            calls = max(1, calls) if goes_on else calls
            run.answer(format, request, is_snapshot=is_served, blocks=blocks, calls=calls, words=words)
    built = ContextRequest(policy, format).build(run)
    assert built
    assert kept_steps(run, format, prefix_bytes(built[1])) == set(answers_of(run, format))
    assert not built[0].manifest.reasoning_left_out


@EVERY
@BOTH
@settings(max_examples=examples(100, minimum=5, part=20), suppress_health_check=list(HealthCheck))
@given(run=runs())
def test_an_answer_keeps_its_reasoning_if_the_next_request_continues_its_own(
    policy: str, format: str, run: Run
) -> None:
    run.add(person(run))
    built = ContextRequest(policy, format).build(run)
    assert built
    request_bytes = prefix_bytes(built[1])
    run.answer(format, request_bytes, is_snapshot=True, blocks=1, calls=0, words=3)
    again = ContextRequest(policy, format).build(run)
    assert again
    written = prefix_bytes(again[1])
    goes_on = written.startswith(request_bytes[: -len(FORMATS[format].closing)] + SEPARATORS[format].encode())
    assert (max(answers_of(run, format)) in kept_steps(run, format, written)) == goes_on


def person(run: Run) -> ModelInput:
    return ModelInput(content=run.text())


def sent_after(run: Run, policy: str = "live", max_tokens: int | None = None) -> tuple[set[int], list[str]]:
    """The steps whose thinking the next request has, and the reasons why that of other steps is left out."""
    built = ContextRequest(policy, "anthropic_messages", max_tokens).build(run)
    assert built
    left_out = [blocks.reason for blocks in built[0].manifest.reasoning_left_out]
    return kept_steps(run, "anthropic_messages", prefix_bytes(built[1])), left_out


def act(run: Run, *, blocks: int = 1, calls: int = 1, words: int = 3) -> None:
    """A step of an agent that sends everything."""
    request = run.full_request("anthropic_messages")
    run.answer("anthropic_messages", request, is_snapshot=False, blocks=blocks, calls=calls, words=words)


def test_a_turn_with_a_left_out_step_loses_all_its_reasoning() -> None:
    run = Run()
    run.add(person(run))
    act(run)
    act(run, words=300)
    act(run)
    kept, reasons = sent_after(run, "sliding_window", 200)
    assert (kept, reasons) == (set(), ["another step of its turn is left out"])


def test_a_clipped_step_removes_the_reasoning_of_its_turn_and_of_all_later_ones() -> None:
    run = Run()
    run.add(person(run))
    act(run, calls=0)
    run.add(person(run))
    act(run)
    act(run, words=900)
    kept, reasons = sent_after(run, "budgeted", 1400)
    assert kept <= {1}
    assert reasons[-1] == "a step of its turn is clipped"


def test_the_first_mask_ends_reasoning_at_a_turn() -> None:
    run = Run()
    for _ in range(4):
        run.add(person(run))
        act(run, words=60)
        act(run, calls=0)
    kept, reasons = sent_after(run, "masked")
    assert (kept, reasons) == (set(), ["what precedes it has changed since the model wrote it"])
    assert sent_after(run, "live") == (set(range(1, 9)), [])


def test_an_answer_after_an_answer_was_made_from_a_request_to_continue() -> None:
    run = Run()
    run.add(person(run))
    act(run, calls=0)
    act(run, calls=0)
    assert sent_after(run)[0] == {1}


def test_reasoning_fills_what_the_history_leaves_of_the_budget() -> None:
    run = Run()
    for _ in range(3):
        run.add(person(run))
        act(run, blocks=8, calls=0)
    built = ContextRequest("live", "anthropic_messages").build(run)
    assert built
    budget = built[0].manifest.tokens - 1
    assert sent_after(run, max_tokens=budget) == ({1, 2}, ["it does not fit the budget"])


def test_a_left_out_input_ends_reasoning() -> None:
    run = Run()
    run.add(person(run))
    act(run, calls=0)
    run.add(person(run))
    run.add(ModelInput(content=run.text(300)))
    act(run, calls=0)
    run.add(person(run))
    assert sent_after(run)[0] == {1, 2}
    assert sent_after(run, "sliding_window", 200)[0] == {1}


def test_a_left_out_step_ends_reasoning() -> None:
    run = Run()
    for blocks, words in ((1, 3), (0, 300), (0, 3), (1, 3)):
        run.add(person(run))
        act(run, blocks=blocks, calls=0, words=words)
    assert sent_after(run)[0] == {1, 4}
    assert sent_after(run, "sliding_window", 200)[0] == {1}


@pytest.mark.parametrize("overall", [None, "Look again."])
def test_a_text_beside_results_begins_the_next_turn(overall: str | None) -> None:
    run = Run()
    run.add(person(run))
    act(run)
    if overall:
        late = ToolResult(tool_call_id="c0", status="success", outputs="late")
        run.add(ToolResults(overall=overall, results=(late,)))
    run.answer("anthropic_messages", b"another request", is_snapshot=True, blocks=1, calls=1, words=3)
    assert sent_after(run)[0] == ({1} if overall else set())
