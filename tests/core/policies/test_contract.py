"""Rules that every registered policy keeps for any session, budget and format."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from historyapp.core.budget import RequestMeter
from historyapp.core.context import Context
from historyapp.core.entries import Entry
from historyapp.core.errors import Invalid
from historyapp.core.formats import FORMATS, render_bytes
from historyapp.core.policies import POLICIES, policy_named
from historyapp.core.policies.base import NO_EXTRAS, RequestExtras
from historyapp.core.settings import SessionSettings
from tests.core.entries import LIVE, calls, result, session
from tests.core.formats.contexts import TOOLS
from tests.core.formats.validators import validate
from tests.core.policies.past import MemoryPast, Summary
from tests.examples import examples

EVERY = pytest.mark.parametrize("name", POLICIES)
BUDGETS = st.none() | st.integers(0, 400)
EXTRAS = st.builds(RequestExtras, tools=TOOLS, live_screen=st.sampled_from(["", "the screen"]))


@st.composite
def summarised(draw: st.DrawFn) -> MemoryPast:
    """A session with summaries of some of its steps, as of some position."""
    entries: list[Entry] = draw(LIVE)
    episodes = MemoryPast(entries).episodes(1, 99)
    summaries = []
    for number in range(draw(st.integers(0, 2)) if episodes else 0):
        first, last = sorted(draw(st.tuples(*[st.integers(1, len(episodes))] * 2)))
        span = episodes[first - 1].first_position, episodes[last - 1].last_position
        summaries.append(Summary(str(number), *span, first, last, draw(st.sampled_from(["it worked", ""]))))
    return MemoryPast(entries, summaries, draw(st.none() | st.integers(0, len(entries))))


def choose(
    name: str,
    past: Any,
    max_tokens: int | None = None,
    format: str = "openai_chat",
    extras: RequestExtras = NO_EXTRAS,
    **given: Any,
) -> Context:
    chosen = SessionSettings(max_tokens=max_tokens, **given)
    return POLICIES[name].choose(past, chosen, RequestMeter(format), extras)


def request_of(
    context: Context, format: str = "openai_chat", extras: RequestExtras = NO_EXTRAS
) -> dict[str, Any]:
    request = FORMATS[format].request(context, extras.tools)
    validate(format, request)
    return request


@EVERY
@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=examples(20, minimum=4))
@given(past=summarised(), budget=BUDGETS, extras=EXTRAS)
def test_a_request_is_valid_has_the_tokens_of_its_manifest_and_is_within_its_budget(
    name: str, format: str, past: MemoryPast, budget: int | None, extras: RequestExtras
) -> None:
    try:
        context = choose(name, past, budget, format, extras, window_size=3, full_message_count=2)
    except Invalid as refusal:
        assert budget is not None and refusal.fields["smallest"] > budget  # noqa: PT017 PT018 budgets are random
        return
    manifest = context.manifest
    assert manifest.tokens == sum(segment.tokens for segment in manifest.segments)
    assert manifest.tokens == RequestMeter(format).request_tokens(request_of(context, format, extras))
    assert budget is None or manifest.tokens <= budget


@EVERY
@settings(max_examples=examples(40))
@given(past=summarised(), budget=BUDGETS)
def test_every_step_is_in_the_manifest_and_left_out_steps_have_a_reason(
    name: str, past: MemoryPast, budget: int | None
) -> None:
    try:
        manifest = choose(name, past, budget, window_size=3, full_message_count=2).manifest
    except Invalid:
        return
    listed = {n for s in manifest.segments if s.step for n in range(s.step, (s.last_step or s.step) + 1)}
    spans = [(out.first_step, out.last_step) for out in manifest.left_out if out.first_step]
    left = {n for first, last in spans if first and last for n in range(first, last + 1)}
    assert listed | left == set(range(1, past.steps + 1))
    # A part for several steps, such as notes, may mention only some of them.
    shown = {segment.step for segment in manifest.segments if segment.last_step is None}
    assert not shown & left
    assert all(out.reason for out in manifest.left_out)


@EVERY
@settings(max_examples=examples(30))
@given(past=summarised(), budget=BUDGETS)
def test_the_smallest_budget_named_by_an_error_works(name: str, past: MemoryPast, budget: int | None) -> None:
    try:
        choose(name, past, budget)
    except Invalid as refusal:
        smallest = refusal.fields["smallest"]
        assert choose(name, past, smallest).manifest.tokens <= smallest
        if name != "budgeted":  # where shortened parts may cost more than tiny complete ones
            with pytest.raises(Invalid):
                choose(name, past, smallest - 1)


@EVERY
@settings(max_examples=examples(20))
@given(past=summarised(), budget=BUDGETS)
def test_the_same_past_gives_the_same_context(name: str, past: MemoryPast, budget: int | None) -> None:
    def once() -> Any:
        try:
            context = choose(name, past, budget)
            return context, render_bytes(request_of(context))
        except Invalid as refusal:
            return refusal.detail

    assert once() == once()


@EVERY
def test_a_context_as_of_a_position_contains_nothing_later(name: str) -> None:
    entries = session(calls("a"), result("a", "early"), calls("b"), result("b", "late"))
    assert b"late" in render_bytes(request_of(choose(name, MemoryPast(entries))))
    earlier = choose(name, MemoryPast(entries, as_of=2))
    assert earlier == choose(name, MemoryPast(entries[:2]))
    assert b"late" not in render_bytes(request_of(earlier))


@EVERY
@pytest.mark.parametrize("format", FORMATS)
def test_a_step_in_flight_is_shown_without_an_invented_result(name: str, format: str) -> None:
    context = choose(name, MemoryPast(session(calls("a"))), format=format)
    assert [segment.step for segment in context.manifest.segments if segment.source == "step"] == [1]
    assert sum(bool(part.items) for part in context.parts) == 1
    assert b"no result was recorded" in render_bytes(request_of(context, format))


@EVERY
@pytest.mark.parametrize("format", FORMATS)
def test_a_late_result_is_text(name: str, format: str) -> None:
    """Results of an abandoned step, an earlier step and an unknown call. A repeated result appears once."""
    entries = session(
        calls("a"), calls("b"), result("a", "found x_y"), result("b", "fine"), result("b", "fine"),
        result("zzz", "found z_z"), calls("c"), result("b", "found b_b"), result("c", "done"),
    )  # fmt: skip
    context = choose(name, MemoryPast(entries), format=format, full_message_count=1, window_size=3)
    text = render_bytes(request_of(context, format)).decode()
    for listed in ("x_y", "z_z", "b_b"):
        assert text.count(listed) == 1
    assert text.count("fine") == 1


@EVERY
@pytest.mark.parametrize("format", FORMATS)
def test_a_result_recorded_again_after_the_next_step_is_shown_once(name: str, format: str) -> None:
    remarked = [result(id, "fine").model_copy(update={"overall": "All is well."}) for id in "bc"]
    entries = session(
        calls("a"), result("a", "found x_y"), calls("b"), remarked[0], result("a", "found x_y"),
        calls("c"), remarked[1], result("a", "found z_z"),
    )  # fmt: skip
    context = choose(name, MemoryPast(entries), format=format, full_message_count=3, window_size=9)
    text = render_bytes(request_of(context, format)).decode()
    assert text.count("x_y") == text.count("z_z") == 1
    assert text.count("All is well.") == 2


@EVERY
@pytest.mark.parametrize("format", FORMATS)
def test_an_empty_history_gives_a_request(name: str, format: str) -> None:
    context = choose(name, MemoryPast([]), format=format)
    assert context.parts == ()
    request_of(context, format)


@EVERY
def test_no_budget_means_no_limit_and_zero_means_zero(name: str) -> None:
    past = MemoryPast(session(calls("a"), result("a", "long " * 5000)))
    assert choose(name, past).manifest.tokens > 5000
    with pytest.raises(Invalid, match="max_tokens is 0"):
        choose(name, past, 0)


def test_every_policy_is_registered_under_its_name() -> None:
    assert all(policy.name == name for name, policy in POLICIES.items())
    with pytest.raises(Invalid, match="budgeted, episodic, sliding_window"):
        policy_named("best")
