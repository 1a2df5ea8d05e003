"""The responses of all model calls together take limited memory."""

from contextlib import ExitStack

import pytest

from historyapp.llm import response_memory
from historyapp.llm.errors import ResponseBroken
from historyapp.llm.model_calls import call_model
from historyapp.llm.response_limits import MemoryInUse, TooMuch
from historyapp.llm.response_memory import (
    FEW,
    MAX_TOTAL,
    OF_PROJECT,
    OF_RESPONSE,
    RESPONSES,
    SMALL,
    ResponseMemory,
)
from historyapp.llm.retries import RetryPolicy
from tests.llm.conftest import Api
from tests.llm.loopback import Answer, Call, Loopback

LETTERS = 5_000
ANSWERS = {
    "text": Answer(text="\N{GRINNING FACE}" * LETTERS),
    "thoughts": Answer(thoughts="\N{GRINNING FACE}" * LETTERS, text="a"),
    "arguments": Answer(calls=(Call("c", "read", '{"path": "' + "\N{GRINNING FACE}" * LETTERS + '"}'),)),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_emoji_in_a_response_counts_four_bytes(kind: str, loopback: Loopback, api: Api) -> None:
    sizes = list[int]()
    loopback.steps.append(ANSWERS[kind])
    for _ in call_model(api.request(), count_memory=sizes.append):
        pass
    assert sizes == sorted(sizes)
    assert 4 * LETTERS < sizes[-1] < 60 * LETTERS


def test_a_response_that_takes_too_much_memory_is_refused_once(
    loopback: Loopback, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_memory, "OF_RESPONSE", 3 * LETTERS)
    loopback.default = lambda _: ANSWERS["text"]
    with (
        pytest.raises(ResponseBroken, match="15,000 bytes of text in memory"),
        RESPONSES.held("a") as count_memory,
    ):
        list(call_model(api.request(), retries=RetryPolicy(first_wait=0), count_memory=count_memory))
    assert len(loopback.requests) == 1


def test_a_long_response_of_a_model_takes_a_small_part_of_the_limit(loopback: Loopback, api: Api) -> None:
    """Here 2,000 tokens of four letters; the longest responses have 64 times as many."""
    sizes = list[int]()
    loopback.steps.append(Answer(text="word" * 2000, sizes=(4,)))
    list(call_model(api.request(), count_memory=sizes.append))
    assert 64 * sizes[-1] < OF_RESPONSE / 4


def test_a_response_that_finds_no_memory_because_of_others_names_them(loopback: Loopback, api: Api) -> None:
    def refuse(size: int) -> None:
        raise MemoryInUse("5 bytes with the responses of other calls")

    loopback.steps.append(Answer(text="word"))
    with pytest.raises(ResponseBroken, match=r"other calls\. Make the call again when they have ended"):
        list(call_model(api.request(), count_memory=refuse))
    assert len(loopback.requests) == 1


def test_large_responses_of_a_project_share_its_memory_and_give_it_back() -> None:
    memory = ResponseMemory()
    with ExitStack() as stack:
        others = [stack.enter_context(memory.held("a")) for _ in range(OF_PROJECT // OF_RESPONSE)]
        for other in others:
            other(OF_RESPONSE)
        with memory.held("a") as count_memory:
            count_memory(SMALL)
            with pytest.raises(TooMuch, match="with the responses of other calls of this project"):
                count_memory(SMALL + 1)
            others[0](0)  # a retry begins with an empty response
            count_memory(SMALL + 1)
    assert memory._shares.of("a") == 0


def test_large_responses_leave_memory_for_those_of_other_projects() -> None:
    memory = ResponseMemory()
    with ExitStack() as stack:
        for number in range(MAX_TOTAL // OF_RESPONSE):
            stack.enter_context(memory.held(number // 2))(OF_RESPONSE)
        count_memory = stack.enter_context(memory.held("other"))
        count_memory(FEW)
        with pytest.raises(TooMuch, match=r"responses of other calls$"):
            count_memory(FEW + 1)
