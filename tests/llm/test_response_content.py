"""The content of a provider's response is limited, so that it takes little memory and time at its end."""

import pytest

from historyapp.llm import provider, response_limits
from historyapp.llm.errors import ResponseBroken
from historyapp.services import append
from tests.llm.conftest import APIS, Api, Caller
from tests.llm.loopback import Answer, Call, Loopback, Raw
from tests.llm.test_hostile_providers import COUNTING


def test_the_text_of_a_response_is_limited_by_its_output_limit(
    loopback: Loopback, api: Api, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider sent 55 MB instead of 4,000 tokens, and their JSON took 2.5 GB."""
    monkeypatch.setattr(response_limits, "SHORT_TEXT", 100)
    loopback.default = lambda _: Answer(thoughts="a" * 1_000, text="b" * 650)
    assert caller.collected(api.request(max_output_tokens=17)).output.text == "b" * 650
    with pytest.raises(ResponseBroken, match="more than 1,600 characters, which"):
        caller.deltas(api.request(max_output_tokens=16))
    assert len(loopback.requests) == 2


@pytest.mark.parametrize("limit", ["MAX_TEXT", "MAX_MESSAGE"])
def test_the_content_of_a_response_without_an_output_limit_is_limited(
    limit: str, loopback: Loopback, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider if limit == "MAX_MESSAGE" else response_limits, limit, 1_000)
    loopback.steps.append(Answer(thoughts="a" * 500, opaque="c" * 500, text="b" * 501))
    with pytest.raises(ResponseBroken, match="more than 1,000 characters, which"):
        caller.deltas(COUNTING.request())
    assert len(loopback.requests) == 1


def test_the_names_of_a_response_and_its_model_have_a_maximum_length(
    loopback: Loopback, caller: Caller
) -> None:
    """Calls without an id get the response's: 120 of them with an id of 15 MB took 5.4 GB."""
    loopback.steps.append(Raw(b'data: {"id": "%s", "model": "m"}\n\n' % (b"x" * 1_000)))
    with pytest.raises(ResponseBroken, match="more than 1,000 characters in the names"):
        caller.deltas(APIS[0].request())
    assert len(loopback.requests) == 1


def test_the_tool_calls_of_a_response_are_limited_as_those_of_an_entry(
    loopback: Loopback, api: Api, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert response_limits.MAX_TOOL_CALLS == append.MAX_TOOL_CALLS
    monkeypatch.setattr(response_limits, "MAX_TOOL_CALLS", 2)
    calls = tuple(Call(f"call_{n}", "read_file") for n in range(3))
    loopback.steps += [Answer(calls=calls[:2]), Answer(calls=calls)]
    assert len(caller.collected(api.request(tools=True)).output.tool_calls) == 2
    with pytest.raises(ResponseBroken, match="more than 2 tool calls"):
        caller.deltas(api.request(tools=True))


def test_numbers_that_json_does_not_have_are_read_as_null(loopback: Loopback, caller: Caller) -> None:
    """A usage of NaN ended the call with an unexpected error, and the paid answer was lost."""
    loopback.steps.append(
        Raw(
            b'data: {"id": "c", "choices": [{"delta": {"content": "Done."}, "x": -Infinity}]}\n\n'
            b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
            b'data: {"choices": [], "usage": {"prompt_tokens": 1e400, "completion_tokens": NaN}}\n\n'
            b"data: [DONE]\n\n"
        )
    )
    completion = caller.collected(APIS[0].request())
    assert (completion.output.text, completion.billed) == ("Done.", None)
    assert completion.usage is not None
    assert completion.usage.raw == {"prompt_tokens": None, "completion_tokens": None}
