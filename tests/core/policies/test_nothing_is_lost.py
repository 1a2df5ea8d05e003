"""Every live input, every output, every part of every result, and the current instruction and notebook stand
in the context, or are masked, clipped, summarised, or left out with a reason; nothing stands there twice or
under another call."""

import json
import os
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from historyapp.core.budget import RequestMeter
from historyapp.core.entries import Body, ModelOutput
from historyapp.core.episodes import group_episodes
from historyapp.core.errors import Invalid
from historyapp.core.formats import FORMATS, render_bytes
from historyapp.core.messages import episodic_messages
from historyapp.core.policies import POLICIES
from historyapp.core.settings import SessionSettings
from historyapp.core.tokens import count_tokens
from tests.core.formats.rules import PAIRED, pairs_of
from tests.core.formats.validators import validate
from tests.core.policies.lossless import MARK, Session, accounted, current_marks, expected_slots, sessions
from tests.core.policies.past import MemoryPast, Summary
from tests.examples import examples

EXAMPLES = int(os.environ.get("LOSSLESS_EXAMPLES", examples(60)))
"""``LOSSLESS_EXAMPLES=10000`` runs the whole of it; see docs/contexts.md."""
EVERY = pytest.mark.parametrize("policy", POLICIES)
THOROUGH = settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
BUDGETS = st.none() | st.integers(60, 3000)


def past_of(log: Session, data: st.DataObject) -> MemoryPast:
    """The session with summaries of some of its steps."""
    episodes = list(group_episodes(log.live))
    summaries = []
    for number in range(data.draw(st.integers(0, 2)) if episodes else 0):
        first, last = sorted(data.draw(st.tuples(*[st.integers(1, len(episodes))] * 2)))
        span = episodes[first - 1].first_position, episodes[last - 1].last_position
        summaries.append(Summary(str(number), *span, first, last, "it went well"))
    return MemoryPast(log.live, summaries)


def steps_of(log: Session) -> dict[int, int]:
    """The number of the step to which an output or a result belongs, by position."""
    episodes = list(group_episodes(log.live))
    steps = {}
    for entry in log.live:
        if entry.kind in ("model_output", "tool_results"):
            earlier = [e.number for e in episodes if e.first_position <= entry.position]
            if earlier:
                steps[entry.position] = earlier[-1]
    return steps


@EVERY
@pytest.mark.parametrize("format", FORMATS)
@settings(THOROUGH, max_examples=max(5, EXAMPLES // 4))
@given(log=sessions(), budget=BUDGETS, data=st.data())
def test_nothing_is_lost_or_repeated(
    policy: str, format: str, log: Session, budget: int | None, data: st.DataObject
) -> None:
    past = past_of(log, data)
    chosen = SessionSettings(max_tokens=budget, window_size=2, full_message_count=2)
    try:
        context = POLICIES[policy].choose(past, chosen, RequestMeter(format))
    except Invalid as refusal:
        assert refusal.fields["smallest"] > (budget or 0)  # noqa: PT017 budgets are random
        return
    request = FORMATS[format].request(context)
    validate(format, request)
    found_marks = MARK.findall(render_bytes(request).decode())
    assert len(found_marks) == len(set(found_marks))
    steps = steps_of(log)
    for mark in current_marks(log) - set(found_marks):
        position = log.marks[mark]
        assert accounted(context.manifest, position, steps.get(position)), mark
    if budget is not None:
        assert context.manifest.tokens <= budget


@EVERY
@THOROUGH
@given(log=sessions(), format=st.sampled_from(PAIRED))
def test_no_result_is_under_another_call(policy: str, log: Session, format: str) -> None:
    chosen = SessionSettings(max_tokens=None, window_size=99, full_message_count=99)
    context = POLICIES[policy].choose(MemoryPast(log.live), chosen, RequestMeter(format))
    request = FORMATS[format].request(context)
    slots = dict(zip(call_marks(format, request), pairs_of(format, request), strict=True))
    expected = expected_slots(log)
    for call, (_, text) in slots.items():
        for mark in MARK.findall(text):
            assert expected[mark] == call
    under = {mark for _, text in slots.values() for mark in MARK.findall(text)}
    actions = {mark for entry in log.live if is_action(entry.body) for mark in texts_of(entry.body)}
    assert {mark for mark, call in expected.items() if call and call not in actions} == under


@pytest.mark.parametrize("format", FORMATS)
@THOROUGH
@given(log=sessions(), policy=st.sampled_from(list(POLICIES)))
def test_results_are_in_the_order_of_their_calls(format: str, log: Session, policy: str) -> None:
    """In every format, also in those that name no ids."""
    chosen = SessionSettings(max_tokens=None, window_size=99, full_message_count=99)
    context = POLICIES[policy].choose(MemoryPast(log.live), chosen, RequestMeter(format))
    found_marks = MARK.findall(render_bytes(FORMATS[format].request(context)).decode())
    calls, expected = {mark: n for n, mark in enumerate(found_marks)}, expected_slots(log)
    answered = [calls[expected[mark]] for mark in found_marks if expected.get(mark)]
    assert answered == sorted(answered)
    assert all(calls[expected[mark]] < calls[mark] for mark in found_marks if expected.get(mark))


def is_action(body: Body) -> bool:
    return isinstance(body, ModelOutput) and body.use_tool is not None


def texts_of(body: Body) -> list[str]:
    return MARK.findall(body.model_dump_json())


def call_marks(format: str, request: dict[str, Any]) -> list[str]:
    """The text of each call, in the order in which the request has them."""
    match format:
        case "openai_chat":
            calls = [call for m in request["messages"] for call in m.get("tool_calls", ())]
        case "openai_responses":
            calls = [item for item in request["input"] if item["type"] == "function_call"]
        case _:
            blocks = [block for message in request["messages"] for block in message["content"]]
            calls = [block for block in blocks if block["type"] == "tool_use"]
    return [MARK.findall(json.dumps(call))[0] for call in calls]


@THOROUGH
@given(log=sessions(), budget=BUDGETS, full=st.integers(0, 4))
def test_messages_lose_nothing(log: Session, budget: int | None, full: int) -> None:
    """``/messages`` gives the inherited texts: it may exceed its budget and shows older steps in one line."""
    chosen = SessionSettings(max_tokens=budget, full_message_count=full)
    made_of = episodic_messages(MemoryPast(log.live), chosen, count_tokens)
    found_marks = MARK.findall(json.dumps([message.model_dump() for message in made_of.messages]))
    assert len(found_marks) == len(set(found_marks))
    steps = steps_of(log)
    shown = {segment.step for segment in made_of.manifest.segments if segment.source == "step"}
    newest = max(steps.values(), default=0)
    in_full = {step for step in shown if step and step > newest - full}
    fixed = {e.position for e in log.live if e.kind in ("system_instruction", "memory_notebook")}
    for mark in current_marks(log) - set(found_marks):
        position = log.marks[mark]
        step = steps.get(position)
        in_one_line = step in shown - in_full
        assert position in fixed or in_one_line or accounted(made_of.manifest, position, step), mark


def test_all_texts_of_a_session_differ() -> None:
    log = Session()
    marks = [log.mark() for _ in range(800)]
    assert len(set(marks)) == 800
    assert all(MARK.fullmatch(mark) for mark in marks)
    assert all(a not in b for a, b in pairwise(marks))
