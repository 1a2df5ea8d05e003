from collections.abc import Sequence

from historyapp.core.budget import RequestMeter
from historyapp.core.context import Context
from historyapp.core.entries import Body, ModelInput
from historyapp.core.formats import FORMATS
from historyapp.core.policies.base import NO_EXTRAS, RequestExtras
from historyapp.core.policies.live import LIVE
from historyapp.core.settings import SessionSettings
from tests.core.entries import calls, result, session
from tests.core.formats.contexts import messages_of
from tests.core.policies.past import MemoryPast

TURNS = [ModelInput(content="go")] + [
    b for i in range(20) for b in (calls(str(i)), result(str(i), f"result {i}"))
]
METER = RequestMeter()


def choose(
    max_tokens: int | None, extras: RequestExtras = NO_EXTRAS, bodies: Sequence[Body] = TURNS
) -> Context:
    return LIVE.choose(MemoryPast(session(*bodies)), SessionSettings(max_tokens=max_tokens), METER, extras)


def test_everything_is_sent_in_order_and_counts_as_stable() -> None:
    context = choose(None)
    assert [message["role"] for message in messages_of(context)] == ["user"] + ["assistant", "tool"] * 20
    assert context.stable == len(context.parts)
    assert context.manifest.left_out == []


def test_over_the_budget_whole_turns_are_removed_from_the_oldest_and_listed() -> None:
    context = choose(150)
    steps = [segment.step for segment in context.manifest.segments if segment.step]
    assert steps == list(range(steps[0], 21))
    assert 1 < len(steps) < 20
    left_input, left = context.manifest.left_out
    assert (left.first_step, left.last_step) == (1, 20 - len(steps))
    assert (left_input.position, left_input.last_position) == (1, 1)
    assert context.stable == 0


def test_the_live_screen_is_in_the_request_and_in_no_message() -> None:
    context = choose(None, RequestExtras(live_screen="the screen"))
    assert all("the screen" not in str(message["content"]) for message in messages_of(context))
    assert [s.source for s in context.manifest.segments if s.source == "live_screen"] == ["live_screen"]
    request = FORMATS["openai_chat"].request(context)
    assert request["messages"][-1] == {"role": "user", "content": "the screen"}


def test_an_input_during_a_step_comes_after_it() -> None:
    bodies: list[Body] = [calls("a"), ModelInput(content="wait"), result("a", "here"), calls("b")]
    assert [message["role"] for message in messages_of(choose(None, bodies=bodies))] == [
        "assistant", "tool", "user", "assistant", "tool",
    ]  # fmt: skip
