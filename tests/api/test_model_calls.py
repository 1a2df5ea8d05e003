"""Model calls over HTTP: what is streamed, what is recorded in the log, and what a failure leaves."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.http import StreamingHttpResponse
from django.test import Client
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from historyapp.api import model_calls as api_model_calls
from historyapp.api.model_calls import SILENCE
from historyapp.core.prices import load_prices
from historyapp.llm import streams
from historyapp.llm.retries import RetryPolicy
from historyapp.models import Entry, IdempotencyKey, Session, Snapshot, Total
from historyapp.services import model_calls
from tests.api.agent import Agent, ask, called, returned
from tests.api.test_problems import assert_problem
from tests.examples import thorough
from tests.llm.loopback import Answer, Broken, Call, Loopback, Raw, Refusal

HALF_WAY = {"gpt-5": 3, "claude-opus-4-5": 5, "openai_responses:gpt-5": 6}
"""Events after which a part of the text has been sent."""
MODELS = tuple(HALF_WAY)


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replaces sleeping: records the pauses instead."""
    noted: list[float] = []
    monkeypatch.setattr(model_calls, "RETRIES", RetryPolicy(sleep=noted.append, random=lambda: 0.0))
    return noted


@pytest.fixture
def ready(run: Agent, loopback: Loopback) -> Agent:
    run.append({"kind": "system_instruction", "text": "You repair code."}, ask("find it"))
    return run


Event = tuple[str, dict[str, Any]]


def events_of(response: Any) -> list[Event]:
    assert response.status == 200, response.body
    assert response.headers["Content-Type"] == "text/event-stream"
    blocks = response.body.decode().strip().split("\n\n")
    events = []
    for block in blocks:
        name, data = block.split("\n", 1)
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


def call_model(run: Agent, model: str = "gpt-5", **fields: Any) -> list[Event]:
    return events_of(run.post("/calls", {"model": model, "policy": "live", "max_tokens": 5000, **fields}))


@pytest.mark.parametrize("model", MODELS)
def test_an_answer_streams_and_becomes_one_entry(ready: Agent, loopback: Loopback, model: str) -> None:
    loopback.steps.append(Answer(text="It is in the parser, line 7."))
    *deltas, (name, appended) = call_model(ready, model)
    assert name == "appended"
    assert {name for name, _ in deltas} == {"delta"}
    assert "".join(d["text"] for _, d in deltas if d["kind"] == "text") == "It is in the parser, line 7."
    entry = ready.get("/entries/3").body
    assert (entry["kind"], entry["text"]) == ("model_output", "It is in the parser, line 7.")
    assert (appended["position"], appended["number"], appended["head"]) == (3, 1, 3)
    assert appended["output"]["text"] == entry["text"]
    assert appended["usage"]["input"] > 0
    assert appended["latency"] >= 0
    assert entry["metadata"]["usage"]
    assert entry["metadata"]["provider"] == appended["provider"]
    assert entry["metadata"]["snapshot"] == appended["snapshot"]
    assert appended["money"] > 0
    assert entry["metadata"]["cost"] == appended["money"]
    assert entry["metadata"]["prices_as_of"] == appended["prices_as_of"] == load_prices().as_of


@pytest.mark.parametrize("model", MODELS)
def test_the_linked_snapshot_is_the_sent_request(ready: Agent, loopback: Loopback, model: str) -> None:
    (_, appended) = call_model(ready, model)[-1]
    snapshot = ready.get(f"/snapshots/{appended['snapshot']}").body
    assert snapshot["output_position"] == 3
    assert snapshot["tokens"]["billed"] == appended["usage"]["input"]
    request = ready.get(f"/snapshots/{appended['snapshot']}/request")
    assert request["matches"] is True
    (sent,) = loopback.requests
    assert {name: sent.body[name] for name in request["request"]} == request["request"]


def test_tool_calls_put_an_action_in_flight(ready: Agent, loopback: Loopback) -> None:
    loopback.steps.append(Answer(calls=(Call("call_7", "read", '{"path": "a"}'),)))
    tool = {"name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}
    (_, appended) = call_model(ready, tools=[tool])[-1]
    (recorded_call,) = appended["output"]["tool_calls"]
    assert recorded_call == {"id": "call_7", "name": "read", "arguments": {"path": "a"}}
    assert loopback.requests[0].body["tools"][0]["function"]["name"] == "read"
    assert_problem(ready.post("/calls", {"model": "gpt-5"}), 409, "already set")
    ready.append(returned("call_7"))
    assert call_model(ready)[-1][0] == "appended"


def test_one_session_alternates_providers_turn_by_turn(ready: Agent, loopback: Loopback) -> None:
    for number, model in enumerate(MODELS * 3):
        loopback.steps.append(
            Answer(thoughts="hm", opaque=f"sig{number}", calls=(Call(f"call_{number}", "read"),))
        )
        assert call_model(ready, model)[-1][0] == "appended"
        ready.append(returned(f"call_{number}"))
    assert ready.get("")["steps"] == 9
    models = {model["model"] for model in ready.get("/ledger")["models"]}
    assert models == {"gpt-5", "claude-opus-4-5"}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("how", ["cut", "garbage", *map(thorough, ("end", "error"))])
def test_a_failed_model_call_leaves_only_a_debug_log(
    ready: Agent, loopback: Loopback, model: str, how: Any
) -> None:
    loopback.steps.extend([Broken(how, after=HALF_WAY[model])] * 4)
    *_, (name, problem) = call_model(ready, model)
    assert name == "error"
    assert problem["status"] == 502
    assert problem["type"] == "/docs/errors#model-call-failed"
    entries = ready.get("/entries?after=2")["items"]
    assert [entry["kind"] for entry in entries] == ["debug_log"]
    assert entries[0]["category"] == "model_call"
    assert model in entries[0]["message"]
    assert ready.get("")["steps"] == 0
    assert [s["output_position"] for s in ready.get("/snapshots")["items"]] == [None]
    loopback.steps.clear()
    assert call_model(ready, model)[-1][0] == "appended"


def test_a_failure_before_the_response_is_a_problem_document(ready: Agent, loopback: Loopback) -> None:
    loopback.steps.append(Refusal(400, "max_tokens is too large", "invalid_request_error"))
    refused = ready.post("/calls", {"model": "gpt-5"})
    assert_problem(refused, 502, "refuses the request", "Provider message: max_tokens is too large")
    (note,) = ready.get("/entries?after=2")["items"]
    assert "max_tokens is too large" in note["message"]


def test_a_failed_model_call_is_in_the_servers_log_with_its_cause(
    ready: Agent, loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    loopback.default = lambda _: Raw(b"<html><h1>Bad Gateway</h1></html>", "text/html", status=502)
    response = ready.post("/calls", {"model": "gpt-5", "policy": "live", "max_tokens": 5000})
    assert_problem(response, 502)
    address = loopback.environment["ANTHROPIC_BASE_URL"]
    cause = "OpenAI could not process the request (502)."
    cause += f" Model gpt-5 at {address}, 4 attempts. Provider message: Bad Gateway"
    assert response["detail"] == cause
    (message,) = [
        record.getMessage() for record in caplog.records if record.name == "historyapp.api.problems"
    ]
    assert message.endswith(f"/calls: {cause}")
    assert [entry["message"] for entry in ready.get("/entries?after=2")["items"]] == [cause]


@pytest.mark.parametrize(
    "body", [b"data: 7\n\n", b"data: {", b"\xff\xfe", *map(thorough, (b"data: {}\n\n", b"", b"<html>"))]
)
@pytest.mark.parametrize("model", MODELS)
def test_an_invalid_response_is_a_502_and_appends_nothing(
    ready: Agent, loopback: Loopback, model: str, body: bytes
) -> None:
    loopback.default = lambda _: Raw(body)
    assert_problem(ready.post("/calls", {"model": model}), 502)
    assert [entry["kind"] for entry in ready.get("/entries?after=2")["items"]] == ["debug_log"]


def test_a_response_that_the_log_refuses_is_a_failed_model_call(ready: Agent, loopback: Loopback) -> None:
    loopback.steps.append(Answer(calls=(Call("same", "read"), Call("same", "read"))))
    *_, (name, problem) = call_model(ready)
    assert (name, problem["status"]) == ("error", 502)
    assert ready.get("")["steps"] == 0


def test_temporary_failures_are_retried(ready: Agent, loopback: Loopback, waits: list[float]) -> None:
    loopback.steps.extend([Refusal(429, "slow down", "rate_limit_error", headers={"retry-after": "3"})])
    assert call_model(ready)[-1][0] == "appended"
    assert waits == [3.0]


def test_restarts_are_reported(ready: Agent, loopback: Loopback) -> None:
    loopback.steps.extend([Broken("cut", after=4), Answer(text="All of it.")])
    deltas = [data for name, data in call_model(ready) if name == "delta"]
    kinds = [delta["kind"] for delta in deltas]
    assert "restarted" in kinds
    after = deltas[kinds.index("restarted") :]
    assert "".join(delta["text"] for delta in after if delta["kind"] == "text") == "All of it."
    assert ready.get("/entries/3")["text"] == "All of it."


def stream(
    run: Agent, fields: dict[str, Any], headers: dict[str, str] | None = None
) -> tuple[StreamingHttpResponse, Iterator[bytes]]:
    client: Client = run._client
    response = client.post(f"{run._base}/calls", fields, "application/json", headers=headers)
    assert isinstance(response, StreamingHttpResponse)
    return response, iter(response)


@pytest.mark.parametrize(
    ("model", "tool"),
    [
        ("claude-opus-4-5", {"type": "web_search_20250305", "name": "web_search"}),
        ("openai_responses:gpt-5", {"type": "web_search"}),
    ],
)
def test_a_hosted_tool_is_sent_with_the_agents_tools(
    ready: Agent, loopback: Loopback, model: str, tool: dict[str, Any]
) -> None:
    assert call_model(ready, model, tools=[tool, {"name": "ls"}])[-1][0] == "appended"
    assert loopback.requests[0].body["tools"][0] == tool
    refused = ready.post("/calls", {"model": "gpt-5", "tools": [tool]})
    assert_problem(refused, 422, "can only be sent in the format")


@pytest.mark.django_db(transaction=True)
def test_closing_the_connection_cancels_the_model_call(ready: Agent, loopback: Loopback) -> None:
    loopback.steps.append(Broken("ping", after=6))
    response, events = stream(ready, {"model": "claude-opus-4-5"})
    assert next(events).startswith(b"event: delta")
    response.close()
    assert loopback.requests[0].left.wait(60)
    assert ready.get("")["head"] == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("after", [0, 4], ids=["from the beginning", "half-way"])
def test_closing_the_connection_cancels_a_model_call_without_a_response(
    ready: Agent, loopback: Loopback, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr(streams, "PAUSE", 0.05)
    monkeypatch.setattr(api_model_calls, "MAX_WAIT", 0.25)
    loopback.steps.append(Broken("hang", after=after))
    response, events = stream(ready, {"model": "claude-opus-4-5"})
    assert SILENCE.encode() in events
    response.close()
    assert loopback.requests[0].left.wait(60)
    assert ready.get("")["head"] == 2


def test_a_failure_after_a_long_wait_is_an_event(
    ready: Agent, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PAUSE", 0.02)
    monkeypatch.setattr(api_model_calls, "MAX_WAIT", 0.1)
    monkeypatch.setattr(model_calls, "RETRIES", RetryPolicy(attempts=1))
    loopback.steps.append(Broken("garbage", after=1, answer=Answer(pause=0.5)))
    _, events = stream(ready, {"model": "claude-opus-4-5"})
    first, *_, last = events
    assert first == SILENCE.encode()
    assert last.startswith(b"event: error")
    assert b'"status":502' in last
    assert [entry["kind"] for entry in ready.get("/entries?after=2")["items"]] == ["debug_log"]


def test_a_second_concurrent_model_call_is_a_conflict(ready: Agent, loopback: Loopback) -> None:
    _, first = stream(ready, {"model": "gpt-5"})
    _, second = stream(ready, {"model": "gpt-5"})
    assert b"event: appended" in b"".join(first)
    output = b"".join(second)
    assert b"event: error" in output
    assert b'"status":409' in output
    assert [entry["kind"] for entry in ready.get("/entries?after=2")["items"]] == [
        "model_output",
        "debug_log",
    ]


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"model": "llama-9"}, 422, "No provider is known for the model 'llama-9'"),
        ({"model": "local:extract"}, 422, "cannot be called"),
        ({}, 422, "No provider is known"),
        ({"model": "gpt-5", "provider": "acme"}, 422, "Use one of openai, openai_responses, anthropic"),
        ({"model": "gpt-5", "policy": "telepathic"}, 422, "Use one of budgeted"),
        ({"model": "gpt-5", "format": "plain"}, 422, "takes the format openai_chat"),
        ({"model": "gpt-5", "policy": "live", "max_tokens": 5}, 422, "too small"),
        ({"model": "gpt-5", "options": {"stream": False}}, 422, "cannot be set through options"),
        ({"model": "gpt-5", "options": {"user": "é" * 200_000}}, 422, "more than 1,000,000 characters"),
        ({"model": "gpt-5", "max_output_tokens": 0}, 422, "body.max_output_tokens"),
        ({"model": "gpt-5", "expected_position": 1}, 409, "head is 2"),
        ({"model": "gpt-5", "as_of": 1}, 422, "is not a field"),
    ],
)
def test_an_invalid_model_call_is_refused_before_it_starts(
    ready: Agent, loopback: Loopback, fields: dict[str, Any], status: int, words: str
) -> None:
    assert_problem(ready.post("/calls", fields), status, words)
    assert (loopback.requests, ready.get("")["head"], Snapshot.objects.count()) == ([], 2, 0)


def test_the_error_of_a_missing_provider_key_names_its_variable(
    ready: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert_problem(ready.post("/calls", {"model": "gpt-5"}), 422, "OPENAI_API_KEY")
    assert not Snapshot.objects.exists()


def test_an_invalid_provider_key_is_a_502_that_does_not_repeat_the_key(
    ready: Agent, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-0123456789")
    refused = ready.post("/calls", {"model": "gpt-5"})
    assert_problem(refused, 502, "does not accept the API key")
    assert "sk-wrong" not in json.dumps(refused.body)
    assert "sk-wrong" not in "".join(entry.body.get("message", "") for entry in Entry.objects.all())


def test_a_repeated_request_makes_one_model_call(ready: Agent, loopback: Loopback) -> None:
    key = {"Idempotency-Key": "call-1"}
    fields = {"model": "gpt-5", "policy": "live"}
    first, again = ready.post("/calls", fields, key), ready.post("/calls", fields, key)
    assert events_of(again) == events_of(first)[-1:]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (len(loopback.requests), Session.objects.get().head) == (1, 3)
    assert_problem(ready.post("/calls", {"model": "gpt-5-mini"}, key), 422, "another request")


def test_the_stored_response_of_a_model_call_names_its_session(ready: Agent, loopback: Loopback) -> None:
    """Otherwise a purge would leave the model's output in it."""
    ready.post("/calls", {"model": "gpt-5", "policy": "live"}, {"Idempotency-Key": "call-1"})
    assert IdempotencyKey.objects.get().sessions == str(Session.objects.get().pk)


def test_a_failed_model_call_can_be_repeated_with_its_idempotency_key(
    ready: Agent, loopback: Loopback
) -> None:
    key = {"Idempotency-Key": "call-1"}
    fields = {"model": "gpt-5", "policy": "live"}
    loopback.steps.append(Refusal(400, "no", "invalid_request_error"))
    assert_problem(ready.post("/calls", fields, key), 502)
    assert events_of(ready.post("/calls", fields, key))[-1][0] == "appended"


def test_a_live_screen_is_sent_and_not_stored(ready: Agent, loopback: Loopback) -> None:
    call_model(ready, live_screen="a very private window")
    assert "private" in json.dumps(loopback.requests[0].body)
    assert "private" not in json.dumps([entry.body for entry in Entry.objects.all()])


def test_hostile_responses_are_passed_through_unchanged(ready: Agent, loopback: Loopback) -> None:
    text = "<script>\u2028\x00 event: appended\n\ndata: {}\n\n"
    loopback.steps.append(Answer(text=text))
    assert call_model(ready)[-1][1]["output"]["text"] == text
    assert ready.get("/entries/3")["text"] == text


def test_archived_sessions_and_strangers_cannot_call_models(
    ready: Agent, charlie: Agent, session_id: str
) -> None:
    assert_problem(charlie.within(f"/sessions/{session_id}").post("/calls", {"model": "gpt-5"}), 404)
    ready.delete()
    assert_problem(ready.post("/calls", {"model": "gpt-5"}), 409, "archived")


def test_an_unanswered_parallel_call_is_still_in_flight(ready: Agent) -> None:
    ready.append(called("a", "b"), returned("a"))
    assert_problem(ready.post("/calls", {"model": "gpt-5"}), 409, "already set")


def test_model_calls_their_cost_and_their_failures_are_counted(ready: Agent, loopback: Loopback) -> None:
    (_, appended) = call_model(ready)[-1]
    loopback.steps += [Refusal(400, "no")]
    assert ready.post("/calls", {"model": "gpt-5", "policy": "live", "max_tokens": 5000}).status == 502
    totals = {total.name: (total.label, total.value) for total in Total.objects.all()}
    assert totals == {
        Total.Name.MODEL_CALLS: ("call openai", 2),
        Total.Name.FAILED_MODEL_CALLS: ("call openai", 1),
        Total.Name.COST: ("call openai", round(appended["money"] * 1_000_000)),
    }


def test_a_model_call_is_a_span_within_that_of_its_request(
    ready: Agent, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr("historyapp.tracing.tracer", lambda: provider.get_tracer("playhead"))
    call_model(ready)
    request, model_call = kept.get_finished_spans()  # the span of the request ends when its stream begins
    assert (request.name, model_call.name) == ("POST /api/v1/sessions/<session_id>/calls", "chat gpt-5")
    assert request.context
    assert model_call.parent
    assert model_call.parent.span_id == request.context.span_id
