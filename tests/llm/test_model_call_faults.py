"""Failures of model calls: some are waited out, some are retried, and the others are reported clearly."""

import pytest

from historyapp.llm.deltas import FinishedDelta, RestartedDelta, StartedDelta, TextDelta
from historyapp.llm.errors import (
    KeyRefused,
    LimitReached,
    ModelCallError,
    ProviderFailed,
    ProviderUnreachable,
    RequestRefused,
    ResponseBroken,
    TimedOut,
)
from historyapp.llm.request import TimeLimits
from tests.llm.conftest import APIS, Api, Caller
from tests.llm.loopback import Answer, Broken, Loopback, Raw, Refusal


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "3"}, 3),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({}, 0.5),
    ],
)
def test_a_rate_limit_is_waited_for_as_long_as_requested(
    loopback: Loopback, api: Api, caller: Caller, headers: dict[str, str], wait: float
) -> None:
    loopback.steps.extend(
        [Refusal(429, "Slow down.", "rate_limit_error", headers=headers), Answer(text="Now.")]
    )
    assert caller.collected(api.request()).output.text == "Now."
    assert caller.waits == [wait]


def test_a_rate_limit_that_lasts_too_long_is_reported_at_once(
    loopback: Loopback, api: Api, caller: Caller
) -> None:
    loopback.steps.append(Refusal(429, "Tomorrow.", "rate_limit_error", headers={"retry-after": "86400"}))
    with pytest.raises(LimitReached) as caught:
        caller.collected(api.request())
    assert (caught.value.retry_after, caught.value.retryable, caught.value.provider_message) == (
        86400,
        True,
        "Tomorrow.",
    )
    assert caller.waits == []


@pytest.mark.parametrize("status", [408, 409, 500, 503, 529])
def test_passing_failures_are_retried_with_growing_waits(
    loopback: Loopback, api: Api, caller: Caller, status: int
) -> None:
    loopback.steps.extend([Refusal(status)] * 3)
    assert caller.collected(api.request()).output.text == "All is well."
    assert caller.waits == [0.5, 1, 2]


def test_a_lasting_failure_is_reported_after_the_last_attempt(
    loopback: Loopback, api: Api, caller: Caller
) -> None:
    loopback.default = lambda _: Refusal(529, "Overloaded", "overloaded_error")
    with pytest.raises(ProviderFailed) as caught:
        caller.collected(api.request(), attempts=3)
    assert (caught.value.provider_status, caught.value.provider_message, len(loopback.requests)) == (
        529,
        "Overloaded",
        3,
    )


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (Refusal(400, "messages: nonsense", "invalid_request_error"), RequestRefused),
        (Refusal(403, "Not you.", "permission_error"), KeyRefused),
        (Refusal(404, "No such model.", "not_found_error"), RequestRefused),
        (Refusal(413, "Too large.", "request_too_large"), RequestRefused),
        (Refusal(429, "Pay first.", "insufficient_quota", "insufficient_quota"), LimitReached),
        (Refusal(500, "Do not ask again.", headers={"x-should-retry": "false"}), ProviderFailed),
    ],
)
def test_a_refused_request_is_not_retried(
    loopback: Loopback, api: Api, caller: Caller, refusal: Refusal, kind: type[ModelCallError]
) -> None:
    loopback.steps.append(refusal)
    with pytest.raises(kind) as caught:
        caller.collected(api.request())
    assert (caught.value.provider_status, caught.value.provider_message, caught.value.retryable) == (
        refusal.status,
        refusal.message,
        False,
    )
    assert len(loopback.requests) == 1


@pytest.mark.parametrize("how", ["cut", "end", "garbage", "error"])
def test_a_response_that_breaks_is_retried(loopback: Loopback, api: Api, caller: Caller, how: str) -> None:
    loopback.steps.extend([Broken(how, after=api.half_way), Answer(text="Whole.")])  # type: ignore[arg-type]
    deltas = caller.deltas(api.request())
    place = next(place for place, delta in enumerate(deltas) if isinstance(delta, RestartedDelta))
    assert any(isinstance(delta, TextDelta) for delta in deltas[:place])
    assert isinstance(deltas[place + 1], StartedDelta)
    assert "".join(delta.text for delta in deltas[place:] if isinstance(delta, TextDelta)) == "Whole."


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("cut", ProviderUnreachable),
        ("end", ResponseBroken),
        ("garbage", ResponseBroken),
        ("error", ProviderFailed),
    ],
)
def test_a_response_that_breaks_again_is_reported(
    loopback: Loopback, api: Api, caller: Caller, how: str, kind: type[ModelCallError]
) -> None:
    loopback.default = lambda _: Broken(how, after=api.half_way)  # type: ignore[arg-type]
    with pytest.raises(kind):
        caller.deltas(api.request())
    assert len(loopback.requests) == 2


def test_a_broken_response_is_not_retried_if_the_policy_forbids_it(
    loopback: Loopback, api: Api, caller: Caller
) -> None:
    loopback.steps.append(Broken("cut", after=api.half_way))
    with pytest.raises(ModelCallError):
        caller.deltas(api.request(), restarts=0)
    assert len(loopback.requests) == 1


def test_a_stream_that_fails_before_its_first_word_is_retried_without_a_restart(
    loopback: Loopback, api: Api, caller: Caller
) -> None:
    loopback.steps.append(Broken("error", after=0))
    deltas = caller.deltas(api.request(), restarts=0)
    assert not any(isinstance(delta, RestartedDelta) for delta in deltas)
    assert isinstance(deltas[-1], FinishedDelta)


def test_a_silent_provider_times_out(loopback: Loopback, api: Api, caller: Caller) -> None:
    loopback.default = lambda _: Broken("hang", after=api.half_way)
    caller.limits = TimeLimits(connect=5, read=0.1, total=30)
    with pytest.raises(TimedOut) as caught:
        caller.deltas(api.request(), restarts=0)
    assert caught.value.retryable


def test_a_slow_response_does_not_time_out(loopback: Loopback, caller: Caller) -> None:
    loopback.steps.append(Answer(text="word by word", sizes=(5,), pause=0.3))
    caller.limits = TimeLimits(connect=5, read=1.2, total=30)
    assert caller.collected(APIS[0].request(), attempts=1).output.text == "word by word"


def test_pings_do_not_extend_the_call_beyond_its_limit(loopback: Loopback, api: Api, caller: Caller) -> None:
    loopback.default = lambda _: Broken("ping", after=api.half_way)
    caller.limits = TimeLimits(connect=5, read=5, total=0.4)
    with pytest.raises(TimedOut, match=r"longer than 0\.4 seconds"):
        caller.deltas(api.request())
    assert loopback.requests[0].left.wait(60)


def test_no_wait_exceeds_the_limit_of_the_call(loopback: Loopback, api: Api, caller: Caller) -> None:
    loopback.steps.append(Refusal(429, "Slow down.", "rate_limit_error", headers={"retry-after": "40"}))
    with pytest.raises(LimitReached):
        caller.deltas(api.request())
    assert caller.waits == []


def test_an_address_without_a_server_is_unreachable(
    api: Api, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Loopback() as gone:
        nowhere = gone.environment
    for name, value in nowhere.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ProviderUnreachable):
        caller.deltas(api.request())
    assert len(caller.waits) == 3


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (Raw(b"<html>Sign in to the hotel's network</html>", "text/html"), "hotel"),
        (Raw(b'{"choices": []}', "application/json"), "choices"),
    ],
)
def test_a_response_that_is_not_a_stream_is_quoted(
    loopback: Loopback, api: Api, caller: Caller, raw: Raw, says: str
) -> None:
    loopback.default = lambda _: raw
    with pytest.raises(ResponseBroken, match=raw.content_type) as caught:
        caller.deltas(api.request())
    assert says in caught.value.provider_message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"event: message_start\ndata: [1, 2]\n\n",
        b"event: message_start\ndata: \xff\xfe\n\n",
        b'event: message_start\ndata: {"type": 5, "choices": [7]}\n\n',
        b'event: message_start\ndata: {"type": "message_start", "choices": "x"}\n\n',
        b'event: x\ndata: {"type": "response.created", "response": null, "choices": [{"delta": 1}]}\n\n',
        b"event: message_start\ndata: " + b"[" * 100_000 + b"\n\n",
        b'event: message_start\ndata: {"type": "a", "b": ' + b'{"c":' * 300 + b"1" + b"}" * 300 + b"}\n\n",
    ],
)
def test_an_invalid_body_is_a_broken_response(
    loopback: Loopback, api: Api, caller: Caller, body: bytes
) -> None:
    loopback.default = lambda _: Raw(body)
    with pytest.raises(ResponseBroken):
        caller.deltas(api.request(), attempts=1)


def test_json_nested_too_deep_is_a_broken_response(loopback: Loopback, api: Api, caller: Caller) -> None:
    deep = b'{"c":' * 200 + b"1" + b"}" * 200
    loopback.steps.append(Raw(b'event: x\ndata: {"type": "x", "deep": ' + deep + b"}\n\n"))
    with pytest.raises(ResponseBroken, match="nested too deeply"):
        caller.deltas(api.request())
    assert len(loopback.requests) == 1
