"""A provider's server cannot make this server read without end, fill its memory or call another server."""

import bz2
import gzip
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from historyapp.llm import network, response_limits, server_sent_events, streams, transport
from historyapp.llm.deltas import SilentDelta, UsageDelta
from historyapp.llm.errors import KeyRefused, ProviderFailed, RequestRefused, ResponseBroken, TimedOut
from historyapp.llm.model_calls import count_tokens
from historyapp.llm.network import MAX_BODY
from historyapp.llm.request import TimeLimits
from historyapp.llm.router import PROVIDERS
from tests.llm.conftest import APIS, Api, Caller
from tests.llm.loopback import Answer, Loopback, Raw, Refusal, responses_wire

COUNTING = APIS[-1]
"""An API that counts tokens."""
START = {"type": "message_start", "message": {"id": "m", "model": "m"}}
USAGE = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 5}}
END = {"type": "message_stop"}
DONE = {"type": "response.completed", "response": {"status": "completed", "usage": {"output_tokens": 5}}}


def sent(*events: dict[str, object]) -> Raw:
    return Raw("".join(f"data: {json.dumps(event)}\n\n" for event in events).encode())


def test_no_more_of_an_error_is_read_than_the_limit(
    loopback: Loopback, api: Api, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    loopback.steps.append(Raw(b"no " * 1_000_000, "text/plain", status=400))
    received = list[int]()
    count = transport.Connection.count

    def noted(self: transport.Connection, size: int) -> None:
        received.append(size)
        count(self, size)

    monkeypatch.setattr(transport.Connection, "count", noted)
    with pytest.raises(RequestRefused, match="no no no"):
        caller.deltas(api.request())
    assert sum(received) < 3 * MAX_BODY


def test_an_error_that_is_cut_off_keeps_its_status(loopback: Loopback, api: Api, caller: Caller) -> None:
    loopback.steps.append(Refusal(503, "x" * 2 * MAX_BODY, headers={"x-should-retry": "false"}))
    with pytest.raises(ProviderFailed) as caught:
        caller.deltas(api.request())
    assert caught.value.provider_status == 503


def test_a_compressed_error_keeps_its_status_without_its_text(
    loopback: Loopback, api: Api, caller: Caller
) -> None:
    body = gzip.compress(b"secret " * 100)
    loopback.steps.append(Raw(body, "text/plain", status=403, headers={"content-encoding": "gzip"}))
    with pytest.raises(KeyRefused) as caught:
        caller.deltas(api.request())
    assert "secret" not in str(caught.value)
    assert loopback.requests[0].headers["accept-encoding"] == "identity"


def test_a_charset_does_not_decompress_an_error(loopback: Loopback, api: Api, caller: Caller) -> None:
    body = bz2.compress(b"large " * 1000)
    loopback.steps.append(Raw(body, "text/plain; charset=bz2_codec", status=400))
    with pytest.raises(RequestRefused):
        caller.deltas(api.request())


def test_a_compressed_stream_is_refused(loopback: Loopback, api: Api, caller: Caller) -> None:
    loopback.steps.append(Raw(gzip.compress(b"data: {}\n\n"), headers={"content-encoding": "gzip"}))
    with pytest.raises(ResponseBroken, match=r"compressed response.*Turn compression off"):
        caller.deltas(api.request())


@pytest.mark.parametrize("name", ["content-type", "content-encoding"])
def test_an_error_that_quotes_a_header_does_not_show_the_key(
    loopback: Loopback, api: Api, caller: Caller, name: str
) -> None:
    key = os.environ[f"{api.name.partition('_')[0].upper()}_API_KEY"]
    loopback.steps.append(Raw(b"hi", headers={name: f"{'x' * 90} {key}"}))
    with pytest.raises(ResponseBroken, match="xxx") as caught:
        caller.deltas(api.request())
    assert key[:6] not in str(caught.value)


def test_a_redirect_is_not_followed(loopback: Loopback, api: Api, caller: Caller) -> None:
    elsewhere = f"{loopback.url}/internal"
    loopback.steps.append(Raw(b"", status=307, headers={"location": elsewhere}))
    with pytest.raises(
        RequestRefused, match=r"redirects the request \(307\).*_BASE_URL to the final address"
    ):
        caller.deltas(api.request())
    assert len(loopback.requests) == 1


def test_a_count_of_tokens_has_a_maximum_size(loopback: Loopback) -> None:
    loopback.steps.append(Raw(b" " * MAX_BODY + b'{"input_tokens": 1}', "application/json"))
    with pytest.raises(ResponseBroken, match=f"more than {MAX_BODY} bytes"):
        count_tokens(COUNTING.request())


@contextmanager
def trickling(first: bytes, byte: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A provider that sends one byte after another without end."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as connection:
                try:
                    connection.sendall(first)
                    while True:
                        connection.sendall(byte)
                        time.sleep(0.02)
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        yield
        thread.join()


HEAD = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("first", "byte"),
    [
        (HEAD % 200 + b"\r\n", b"1\r\n \r\n"),
        (HEAD % 400 + b"\r\n", b"1\r\n \r\n"),
        (HEAD % 200 + b"\r\n1;", b"a"),
        (HEAD % 200 + b"X: ", b"a"),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    ],
    ids=["body", "error", "chunk", "header", "hints"],
)
def test_a_provider_that_sends_slowly_does_not_extend_the_deadline(
    first: bytes, byte: bytes, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        trickling(first, byte, monkeypatch),
        pytest.raises(TimedOut, match=r"longer than 0\.2 seconds"),
    ):
        count_tokens(COUNTING.request(), limits=TimeLimits(connect=5, read=5, total=0.2))


def test_an_event_has_a_maximum_size(
    loopback: Loopback, api: Api, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_sent_events, "MAX_EVENT", 10_000)
    loopback.steps.append(Raw(b"event: x\n" + b":\n" * 6000))
    with pytest.raises(ResponseBroken, match="bytes in one event"):
        caller.deltas(api.request())
    assert len(loopback.requests) == 1


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("MAX_EVENTS", "more than 3 events"),
        ("MAX_RESPONSE_CONTAINERS", "more than 3 lists and objects, which"),
        ("MAX_EVENT_VALUES", "more than 3 values in one event"),
    ],
)
def test_the_values_of_a_response_are_limited(
    limit: str, message: str, loopback: Loopback, api: Api, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_limits, limit, 3)
    values = b"[],[],[],1" if limit == "MAX_EVENT_VALUES" else b"1"
    event = b'event: x\ndata: {"type": "x", "x": [' + values + b"]}\n\n"
    loopback.steps.append(Raw(event * 9))
    with pytest.raises(ResponseBroken, match=message):
        caller.deltas(api.request())
    assert len(loopback.requests) == 1


def test_the_digits_in_long_numbers_of_an_event_are_limited(
    loopback: Loopback, api: Api, caller: Caller
) -> None:
    """Reading 16 MB of them stops all other calls for a third of a second."""
    numbers = b"9" * 4000 + b","
    loopback.steps.append(Raw(b'event: x\ndata: {"type": "x", "x": [' + numbers * 30 + b"0]}\n\n"))
    with pytest.raises(ResponseBroken, match="more than 100,000 digits in the long numbers of one event"):
        caller.deltas(api.request())


@pytest.mark.parametrize("tokens", [10**10, 2**63, -1, True])
def test_a_count_of_tokens_that_is_not_plausible_is_refused(loopback: Loopback, tokens: int) -> None:
    loopback.steps.append(Raw(json.dumps({"input_tokens": tokens}).encode(), "application/json"))
    with pytest.raises(ResponseBroken, match="did not report the number"):
        count_tokens(COUNTING.request())


def test_a_long_event_within_the_limits_is_read(loopback: Loopback, api: Api, caller: Caller) -> None:
    text = "An [image] in {base64} " * 40_000
    loopback.steps.append(Answer(text=text, sizes=(len(text),)))
    assert caller.collected(api.request()).output.text == text


def test_a_usage_object_that_grows_with_each_event_is_refused(
    loopback: Loopback, api: Api, caller: Caller
) -> None:
    usage = {"input_tokens": 1, "prompt_tokens": 1, "completion_tokens": 1, "x": "x" * 10_000}
    events = {
        "openai": {"choices": [], "usage": usage},
        "openai_responses": {"type": "response.completed", "response": {"usage": usage}},
        "anthropic": {"type": "message_delta", "delta": {}, "usage": usage},
    }
    loopback.default = lambda _: Raw(f"event: x\ndata: {json.dumps(events[api.name])}\n\n".encode())
    with pytest.raises(ResponseBroken, match="does not follow its API"):
        caller.deltas(api.request(), attempts=1)


def test_the_objects_of_large_events_are_limited_together(
    loopback: Loopback, api: Api, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_limits, "MAX_LARGE_CONTAINERS", 30)
    event = b'event: x\ndata: {"type": "x", "x": [' + b"[]," * 20 + b"1]}\n\n"
    loopback.steps.append(Raw(event * 3))
    with pytest.raises(ResponseBroken, match="more than 30 lists and objects in large events"):
        caller.deltas(api.request())


def test_the_values_of_large_events_are_limited_together(
    loopback: Loopback, api: Api, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers keep them: six calls with 100,000 numbers in each event took 1.9 GB."""
    monkeypatch.setattr(response_limits, "MAX_LARGE_VALUES", 250)
    small = b'event: x\ndata: {"type": "x", "x": [' + b"1," * 90 + b"1]}\n\n"
    large = b'event: x\ndata: {"type": "x", "x": {' + b",".join(b'"%d":1' % n for n in range(190)) + b"}}\n\n"
    loopback.steps.append(Raw(small * 9 + large * 3))
    with pytest.raises(ResponseBroken, match="more than 250 values in large events"):
        caller.deltas(api.request())


TOKEN = {"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": [{"bytes": [97]}] * 20}


def test_fields_of_choices_that_are_not_read_do_not_count(
    loopback: Loopback, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_limits, "MAX_RESPONSE_CONTAINERS", 50)
    severity = {"filtered": False, "severity": "safe"}
    choice = {
        "index": 0,
        "delta": {"content": "a"},
        "logprobs": {"content": [TOKEN]},
        "content_filter_results": dict.fromkeys(("hate", "self_harm", "sexual", "violence"), severity),
    }
    event = f"data: {json.dumps({'choices': [choice]})}\n\n"
    last = 'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'
    loopback.steps.append(Raw((event * 10 + last).encode()))
    assert caller.collected(APIS[0].request()).output.text == "a" * 10


def test_probabilities_of_the_responses_api_do_not_count_and_are_not_stored(
    loopback: Loopback, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_limits, "MAX_RESPONSE_CONTAINERS", 150)
    stream = responses_wire.events(Answer(text="All is well."), 1, "gpt-5.3", 1)
    body = "".join(f"event: {name}\ndata: {json.dumps(event)}\n\n" for name, event in stream)
    loopback.steps.append(
        Raw(body.replace('"logprobs": []', f'"logprobs": {json.dumps([TOKEN] * 9)}').encode())
    )
    output = caller.collected(APIS[1].request()).output
    assert output.text == "All is well."
    assert output.raw_message is not None
    assert output.raw_message["output"][0]["content"][0]["logprobs"] == []


def test_a_call_that_is_cancelled_before_its_response_ends_its_connection(
    loopback: Loopback, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PAUSE", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with closing(caller.call(COUNTING.request())) as deltas:
            assert isinstance(next(deltas), SilentDelta)
            connection, _ = silent.accept()
            received = connection.recv(1)
            assert received
        with connection:
            connection.settimeout(5)
            while received:
                received = connection.recv(65536)


@pytest.mark.parametrize(
    ("number", "events"), [(1, [DONE]), (2, [USAGE, END]), (2, [END])], ids=["responses", "usage", "end"]
)
def test_a_response_without_its_start_is_broken(
    loopback: Loopback, caller: Caller, number: int, events: list[dict[str, object]]
) -> None:
    loopback.default = lambda _: sent(*events)
    with pytest.raises(ResponseBroken, match="start"):
        caller.deltas(APIS[number].request())
    assert len(loopback.requests) == 2


@pytest.mark.parametrize(
    ("number", "events"),
    [
        (1, [{"type": "response.created", "response": {"id": "r", "model": "m"}}, DONE, DONE, DONE]),
        (2, [START, USAGE, END, USAGE, USAGE]),
    ],
    ids=["responses", "anthropic"],
)
def test_nothing_is_read_after_the_last_event_of_a_response(
    loopback: Loopback, caller: Caller, number: int, events: list[dict[str, object]]
) -> None:
    loopback.steps.append(sent(*events))
    deltas = caller.deltas(APIS[number].request())
    assert sum(isinstance(delta, UsageDelta) for delta in deltas) == 1


@pytest.mark.parametrize(("pause", "silences"), [(0, 3), (1000, 0)])
def test_a_call_can_be_cancelled_while_events_come_that_have_no_deltas(
    monkeypatch: pytest.MonkeyPatch, pause: float, silences: int
) -> None:
    monkeypatch.setattr(streams, "PAUSE", pause)
    anthropic = PROVIDERS["anthropic"]
    deltas = list(anthropic._read([{"type": "unknown"}] * 3, anthropic.reader(), lambda _: None))
    assert deltas == [SilentDelta()] * silences


def test_a_call_that_is_cancelled_while_it_connects_sends_no_request(
    loopback: Loopback, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_connect, threads = threading.Event(), list[threading.Thread]()
    connect = network._LimitedNetwork.connect_tcp

    def connect_late(self: network._LimitedNetwork, *args: Any, **options: Any) -> network.LimitedStream:
        threads.append(threading.current_thread())
        may_connect.wait(10)
        return connect(self, *args, **options)

    monkeypatch.setattr(streams, "PAUSE", 0.01)
    monkeypatch.setattr(streams, "JOIN_SECONDS", 0)
    monkeypatch.setattr(network._LimitedNetwork, "connect_tcp", connect_late)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"{loopback.url}/without/connections/yet")
    with closing(caller.call(COUNTING.request())) as deltas:
        assert isinstance(next(deltas), SilentDelta)
    may_connect.set()
    for thread in threads:
        thread.join(10)
    assert (len(threads), loopback.requests) == (1, [])
