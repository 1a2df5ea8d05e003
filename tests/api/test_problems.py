"""Every error of a request gives a problem document that says what is wrong."""

import gc
import json
from io import BytesIO
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.test import Client, override_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from historyapp.api.parsing import StrictParser
from historyapp.core.json import MAX_VALUES
from historyapp.models import Entry
from historyapp.wire.problems import Malformed
from tests.api.agent import Agent, Received, ask
from tests.busy import busy_error
from tests.examples import examples

MISSING = "0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d"


def assert_problem(response: Received, status: int, *words: str) -> None:
    assert response.status == status, response.body
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response["status"] == status
    assert response["type"].startswith("/docs/errors#")
    assert response["title"]
    assert all(word in response["detail"] for word in words), response["detail"]


def test_a_refused_body_does_not_wait_in_memory_for_the_garbage_collector(run: Agent) -> None:
    bodies: list[Any] = [
        {"entries": [ask()], "unknown_in_this_test": []},
        {"entries": [{"kind": "nothing", "unknown_in_this_test": []}]},
        {"entries": [{"kind": "system_instruction", "text": {"unknown_in_this_test": []}}]},
        {"entries": [ask()], "expected_position": 7, "metadata": {"unknown_in_this_test": []}},
    ]

    def kept() -> int:
        return sum(type(one) is dict and "unknown_in_this_test" in one for one in gc.get_objects())

    for body in bodies:
        run.post("/entries", body)
    gc.collect()
    gc.disable()
    try:
        before = kept()
        for body in bodies:
            assert run.post("/entries", body).status == 422
        assert kept() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("path", ["/nope", "/sessions/", f"/sessions/{MISSING}/nope", "/", "/%ff", "/a//b"])
def test_an_unknown_address_is_a_problem(alice: Agent, path: str) -> None:
    assert_problem(alice.get(path), 404, "/api/v1/docs")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", f"/sessions/{MISSING}", "DELETE, GET, HEAD, PATCH"),
        ("DELETE", "/sessions", "GET, HEAD, POST"),
        ("OPTIONS", "/imports", "POST"),
        ("POST", "/openapi.json", "GET, HEAD"),
    ],
)
def test_a_wrong_method_gives_the_allowed_methods(alice: Agent, method: str, path: str, allow: str) -> None:
    refused = alice.send(method, path)
    assert_problem(refused, 405, method, allow)
    assert refused.headers["Allow"] == allow


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "line 1, column 2"),
        (b'{"title": "a" "b"}', 400, "line 1, column 15"),
        (b'{"title": "\xff"}', 400, "byte 11"),
        ('{"title": "\ud800"}'.encode("utf-8", "surrogatepass"), 400, "UTF-8"),
        ('{"title": "x"}'.encode("utf-16"), 400, "UTF-8"),
        (b'{"metadata": {"x": NaN}}', 400, "NaN"),
        (b'{"metadata": {"x": -Infinity}}', 400, "-Infinity"),
        (b'{"metadata": {"x": 1e999}}', 400, "too large"),
        (b'{"metadata": {"x": ' + b"9" * 5000 + b"}}", 400, "digits"),
        (b'{"metadata": {"x": ' + b"[" * 10_000 + b"]" * 10_000 + b"}}", 422, "nested"),
        (b'{"metadata": {"x": ' + b'{"a":' * 300 + b"1" + b"}" * 302, 422, "nested"),
        (b"[" * 100_000, 422, "nested"),
        (b"[]", 422, "object"),
        (b"null", 422, "object"),
        (b'"x"', 422, "object"),
        (b"1", 422, "object"),
    ],
)
def test_a_body_that_is_not_a_json_object_is_refused(
    alice: Agent, body: bytes, status: int, words: str
) -> None:
    assert_problem(alice.send("POST", "/sessions", body), status, words)
    assert alice.get("/sessions")["items"] == []


def test_a_body_of_too_many_values_is_refused(alice: Agent) -> None:
    refused = alice.send("POST", "/sessions", b'{"metadata":{"x":[' + b"[]," * MAX_VALUES + b"0]}}")
    assert refused.status == 422
    assert "1,000,000 JSON values" in refused["detail"]


def test_a_body_that_is_deep_but_not_too_deep_is_stored(alice: Agent) -> None:
    deep: Any = []
    for _ in range(150):
        deep = [deep]
    made = alice.post("/sessions", {"metadata": {"deep": deep}})
    assert made.status == 201
    assert alice.get(f"/sessions/{made['id']}")["metadata"] == {"deep": deep}


@pytest.mark.parametrize(
    "type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_another_media_type_is_refused(alice: Agent, type: str) -> None:
    assert_problem(alice.send("POST", "/sessions", b"{}", type=type), 415, "application/json")


def test_the_charset_is_ignored(alice: Agent) -> None:
    assert alice.send("POST", "/sessions", b"{}", type="application/json; charset=utf-8").status == 201


@override_settings(PLAYHEAD_MAX_BODY=1000)
def test_a_body_that_is_too_large_is_refused_without_being_read(alice: Agent) -> None:
    large = json.dumps({"title": "x" * 1000}).encode()
    assert_problem(alice.send("POST", "/sessions", large), 413, "1,000 bytes")
    fits = json.dumps({"metadata": {"x": "x" * 900}}).encode()
    assert alice.send("POST", "/sessions", fits).status == 201


def test_a_body_over_the_default_limit_is_refused(alice: Agent) -> None:
    refused = alice.send("POST", "/sessions", b" " * (32 * 1024 * 1024 + 1))
    assert_problem(refused, 413, "33,554,432 bytes")
    assert refused["max_body"] == 33_554_432


def test_a_body_in_chunks_is_refused(alice: Agent) -> None:
    assert_problem(
        alice.send("POST", "/sessions", headers={"Transfer-Encoding": "chunked"}), 411, "Content-Length"
    )


def test_a_body_that_ends_early_is_refused() -> None:
    environ = {"REQUEST_METHOD": "POST", "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": "5"}
    request = WSGIRequest({**environ, "wsgi.input": BytesIO(b"{}")})
    with pytest.raises(Malformed, match="ended early"):
        StrictParser().parse_body(request)


def test_an_unknown_host_is_a_problem(alice: Agent) -> None:
    refused = alice.get("/sessions", {"Host": "elsewhere.example"})
    assert_problem(refused, 400, "ALLOWED_HOSTS")
    page = Client().get("/", headers={"Host": "elsewhere.example"})
    assert (page.status_code, page["Content-Type"].split(";")[0]) == (400, "text/html")


def test_unknown_fields_are_named(alice: Agent) -> None:
    refused = alice.post("/sessions", {"name": "x", "titel": "y"})
    assert_problem(refused, 422, "body.name is not a field")
    assert [error["loc"] for error in refused["errors"]] == [["body", "name"], ["body", "titel"]]


@pytest.mark.parametrize("query", ["x=1", "limit=5&offset=2", "LIMIT=5", "limit%00=1"])
def test_unknown_query_parameters_are_named(alice: Agent, query: str) -> None:
    assert_problem(alice.get(f"/sessions?{query}"), 422, "Use agent, cursor")
    assert_problem(alice.send("POST", f"/sessions?{query}", b"{}"), 422, "no parameters")


def test_a_repeated_query_parameter_is_refused(alice: Agent) -> None:
    assert_problem(alice.get("/sessions?limit=1&limit=2"), 422, "limit is given 2 times")


def test_a_thousand_parameters_are_too_many(alice: Agent) -> None:
    assert_problem(alice.get("/sessions?" + "&".join(["tag=x"] * 1001)), 400)


@pytest.mark.parametrize(
    ("body", "nearest"),
    [
        ({"titel": "x"}, "title"),
        ({"settings": {"max_token": 5}}, "max_tokens"),
        ({"zzz": 1}, None),
        ({"title" * 20: 1}, None),
    ],
)
def test_an_unknown_field_is_answered_with_the_name_of_the_nearest_field(
    alice: Agent, body: dict[str, Any], nearest: str | None
) -> None:
    detail = alice.post("/sessions", body)["detail"]
    assert " is not a field of this request" in detail
    suggestion = f"is not a field of this request. Did you mean {nearest!r}?"
    assert detail.endswith(suggestion if nearest else "is not a field of this request.")


@pytest.mark.parametrize(
    ("entry", "nearest"),
    [
        ({"kind": "model_input", "content": "x", "chanel": "user"}, "channel"),
        ({"kind": "model_output", "tool_call": []}, "tool_calls"),
        ({"kind": "model_output", "tool_calls": [{"id": "a", "name": "ls", "argument": {}}]}, "arguments"),
        ({"kind": "tool_results", "result": []}, "results"),
    ],
)
def test_the_nearest_field_is_one_of_the_same_kind_of_entry(
    run: Agent, entry: dict[str, Any], nearest: str
) -> None:
    messages = [error["message"] for error in run.post("/entries", {"entries": [entry]})["errors"]]
    assert f"is not a field of this request. Did you mean {nearest!r}?" in messages


def test_an_error_never_repeats_the_request(alice: Agent, run: Agent) -> None:
    secret = "hunter2 " * 100_000
    for body in (
        {"title": secret},
        {secret: 1},
        {"tags": secret},
        {"id": secret},
        {"settings": {"policy": secret}},
    ):
        refused = alice.post("/sessions", body)
        assert_problem(refused, 422)
        assert len(json.dumps(refused.body)) < 3000
    refused = run.post("/entries", {"entries": [{"kind": secret}]})
    assert "hunter2" not in json.dumps(refused.body)
    twice = {"kind": "model_output", "tool_calls": [{"id": secret, "name": "x"}] * 2}
    refused = run.post("/entries", {"entries": [twice]})
    assert_problem(refused, 422, "two tool calls")
    assert len(json.dumps(refused.body)) < 3000


def test_many_errors_are_counted_and_the_first_ones_listed(run: Agent) -> None:
    refused = run.post("/entries", {"entries": [{"kind": "model_input"}] * 1000})
    assert_problem(refused, 422, "body.entries[0].model_input.content is missing (and 999 more)")
    assert len(refused["errors"]) == 20


def test_a_busy_database_gives_503_with_retry_after(alice: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(*_: object, **__: object) -> None:
        raise busy_error()

    monkeypatch.setattr("historyapp.api.sessions.create_session", locked)
    refused = alice.post("/sessions")
    assert_problem(refused, 503, "busy")
    assert refused.headers["Retry-After"] == "1"


def test_an_unexpected_error_is_logged_and_not_shown(
    alice: Agent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("password is hunter2")

    monkeypatch.setattr("historyapp.api.sessions.create_session", fail)
    refused = alice.post("/sessions", {"title": "hunter3"})
    assert_problem(refused, 500)
    assert "hunter" not in json.dumps(refused.body)
    (record,) = (record for record in caplog.records if record.name == "historyapp.api.problems")
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], RuntimeError)
    assert "hunter" not in record.getMessage()


WRITES = [
    "/entries", "/actions", "/results", "/steps", "/summaries", "/rewinds", "/forks", "/rewinds/1/undo",
]  # fmt: skip


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(WRITES), body=st.binary(max_size=60))
def test_no_bytes_make_the_server_fail(run: Agent, path: str, body: bytes) -> None:
    assert run.send("POST", path, body).status < 500


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=()), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip
FIELDS = [
    "kind", "entries", "expected_position", "metadata", "created_at", "thoughts", "use_tool", "raw_message",
    "status", "outputs", "reason", "error", "feedback", "from_step", "to_step", "text", "key_points",
    "episodes", "to_position", "at_step", "at_position", "title", "id", "analysis_result", "execution_result",
    "supervision_result", "timestamp", "tool_calls", "results",
]  # fmt: skip


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(WRITES), body=st.dictionaries(st.sampled_from(FIELDS), values, max_size=5))
def test_no_fields_make_the_server_fail(run: Agent, path: str, body: dict[str, Any]) -> None:
    assert run.post(path, body).status < 500


def test_a_batch_is_stored_completely_or_not_at_all(run: Agent) -> None:
    batch = [ask(), {**ask(), "oops": 1}]
    assert_problem(run.post("/entries", {"entries": batch}), 422, "entries[1]")
    late = [
        {"kind": "model_input", "content": "go"},
        {"kind": "tool_results", "results": [{"status": "success"}]},
    ]
    assert_problem(run.post("/entries", {"entries": late}), 409)
    assert not Entry.objects.exists()
