"""Contexts over HTTP: their content, their budget, and which options apply."""

import hashlib
import json
from itertools import cycle, product, starmap
from typing import Any

import pytest

from historyapp.core.formats import FORMATS
from historyapp.core.policies import POLICIES
from historyapp.models import Snapshot
from tests.api.agent import Agent, ask, called, returned
from tests.api.conftest import Owner
from tests.api.test_problems import assert_problem
from tests.examples import thorough
from tests.llm.loopback import Loopback

TOOL = {"name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}


@pytest.fixture(scope="module")
def recorded(owner: Owner) -> Agent:
    run = owner.begin_run()
    run.append({"kind": "system_instruction", "text": "You repair code."}, ask("find it"))
    for number in range(3):
        run.append(called(f"call_{number}"))
        run.append(returned(f"call_{number}", "line\n" * 20))
    return run


@pytest.fixture
def three(recorded: Agent, db: None) -> Agent:
    return recorded


def context(run: Agent, **fields: Any) -> Any:
    response = run.post("/contexts", {"max_tokens": 5000, **fields})
    assert response.status == 201, response.body
    return response.body


FIELDS = {
    "openai_chat": {"messages"},
    "openai_responses": {"instructions", "input"},
    "anthropic_messages": {"system", "messages"},
    "plain": {"text"},
}


PAIRS = list(zip(POLICIES, cycle(FORMATS), strict=False))
"""Each policy, and each format at least once."""
assert len(POLICIES) >= len(FORMATS)
OTHER_PAIRS = [pair for pair in product(POLICIES, FORMATS) if pair not in PAIRS]


@pytest.mark.parametrize(("policy", "format"), [*PAIRS, *starmap(thorough, OTHER_PAIRS)])
def test_every_policy_is_served_in_every_format(three: Agent, policy: str, format: str) -> None:
    served = context(three, policy=policy, format=format)
    assert set(served["request"]) == FIELDS.get(format, set(served["request"]))
    assert served["manifest"]["policy"] == policy
    assert served["tokens"]["estimated"] == served["manifest"]["tokens"]
    assert served["tokens"]["estimated"] == sum(s["tokens"] for s in served["manifest"]["segments"])


def test_missing_options_come_from_the_session(three: Agent) -> None:
    three.patch("", {"model": "claude-sonnet-4-5", "settings": {"policy": "live", "max_tokens": 900}})
    served = three.post("/contexts").body
    assert set(served["request"]) == {"system", "messages"}
    assert (served["manifest"]["policy"], served["manifest"]["max_tokens"]) == ("live", 900)
    assert three.post("/contexts", {"max_tokens": None})["manifest"]["max_tokens"] is None


def test_a_dry_run_serves_the_same_and_records_nothing(three: Agent) -> None:
    dry = three.get("/contexts?policy=live&format=anthropic_messages&model=claude-opus-4-5&max_tokens=3000")
    assert dry.status == 200
    assert dry["snapshot"] is None
    assert not Snapshot.objects.exists()
    fields = {
        "policy": "live",
        "format": "anthropic_messages",
        "model": "claude-opus-4-5",
        "max_tokens": 3000,
    }
    recorded = context(three, **fields)
    assert recorded["sha256"] == dry["sha256"]
    assert recorded["request"] == dry["request"]
    assert Snapshot.objects.get().pk.hex == recorded["snapshot"].replace("-", "")


def test_the_hash_is_that_of_the_requests_compact_json(three: Agent) -> None:
    served = context(three, tools=[TOOL])
    text = json.dumps(served["request"], ensure_ascii=False, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == served["sha256"]


def test_a_request_can_turn_recording_off(three: Agent) -> None:
    response = three.post("/contexts", {"record": False})
    assert (response.status, response["snapshot"]) == (200, None)
    assert not Snapshot.objects.exists()


def test_a_context_is_as_of_a_position(three: Agent) -> None:
    then = context(three, policy="live", as_of=2)
    assert [message["role"] for message in then["request"]["messages"]] == ["system", "user"]
    assert three.get("/contexts?policy=live&as_of=2&max_tokens=5000")["sha256"] == then["sha256"]
    assert Snapshot.objects.get().position == 2


def test_tools_are_counted_and_shaped(three: Agent) -> None:
    served = context(three, tools=[TOOL], format="anthropic_messages")
    (tool,) = served["request"]["tools"]
    assert (tool["name"], tool["input_schema"]["type"]) == ("read", "object")
    (segment,) = [s for s in served["manifest"]["segments"] if s["source"] == "tools"]
    assert segment["tokens"] > 300


def test_a_live_screen_counts_in_the_budget_and_is_only_in_the_request(three: Agent) -> None:
    screen = "a window with a button " * 20
    served = context(three, policy="live", live_screen=screen)
    assert screen in json.dumps(served["request"])
    (segment,) = [s for s in served["manifest"]["segments"] if s["source"] == "live_screen"]
    assert segment["tokens"] > 80
    assert served["tokens"]["estimated"] == served["manifest"]["tokens"]
    small = three.post("/contexts", {"policy": "live", "live_screen": screen, "max_tokens": 250})
    assert small.status == 201
    assert small["tokens"]["estimated"] <= 250
    assert small["manifest"]["max_tokens"] == 250
    assert small["manifest"]["left_out"] != []
    assert screen not in json.dumps(three.get("/entries")["items"])


@pytest.mark.parametrize("format", FORMATS)
def test_a_context_can_consist_of_a_live_screen(run: Agent, format: str) -> None:
    served = context(run, format=format, live_screen="an empty window")
    assert "an empty window" in json.dumps(served["request"])
    assert served["tokens"]["estimated"] == served["manifest"]["tokens"]


def test_a_budget_that_is_too_small_names_one_that_works(three: Agent) -> None:
    for screen in ("", "a screen " * 50):
        fields = {"policy": "live", "max_tokens": 20, "live_screen": screen}
        refused = three.post("/contexts", fields)
        assert_problem(refused, 422, "too small")
        assert three.post("/contexts", {**fields, "max_tokens": refused["smallest"]}).status == 201
        assert three.post("/contexts", {**fields, "max_tokens": refused["smallest"] - 1}).status == 422


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"policy": "telepathic"}, "Use one of budgeted, episodic, "),
        ({"format": "morse"}, f"Use one of {', '.join(FORMATS)}"),
        ({"as_of": 99}, "Use 0 to 8"),
        ({"tools": [{"name": "x", "parameters": {"type": "string"}}]}, "JSON schema of type object"),
        ({"tools": [{"name": "no blanks", "parameters": {"type": "object"}}]}, "A tool's name"),
        (
            {
                "tools": [
                    {"name": "x", "parameters": {"type": "object", "properties": {"p": {"type": "strin"}}}}
                ]
            },
            "properties.p, type must be of array",
        ),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "format anthropic_messages"),
        ({"tools": ["read"]}, "body.tools[0]"),
        ({"max_tokens": -1}, "body.max_tokens"),
        ({"max_tokens": "many"}, "body.max_tokens"),
        ({"colour": "red"}, "is not a field"),
        ({"count": True, "model": "llama-9"}, "No provider is known for the model 'llama-9'"),
        ({"count": True, "model": "claude-opus-4-5", "format": "openai_responses"}, "another format"),
    ],
)
def test_invalid_options_are_refused_with_a_reason(three: Agent, fields: dict[str, Any], words: str) -> None:
    assert_problem(three.post("/contexts", fields), 422, words)
    assert not Snapshot.objects.exists()


@pytest.mark.parametrize(
    "query", ["policy=telepathic", "format=morse", "as_of=99", "max_tokens=x", "tools=1"]
)
def test_an_invalid_dry_run_is_refused(three: Agent, query: str) -> None:
    assert_problem(three.get(f"/contexts?{query}"), 422)


def test_an_image_without_data_is_refused(run: Agent) -> None:
    refused = run.post("/entries", {"entries": [ask() | {"content": [{"type": "image"}]}]})
    assert_problem(refused, 422, "entries[0].content[0] is an image without")
    assert run.get("")["head"] == 0


def test_strangers_and_missing_sessions_are_404(three: Agent, charlie: Agent, session_id: str) -> None:
    theirs = charlie.within(f"/sessions/{session_id}")
    assert_problem(theirs.get("/contexts"), 404)
    assert_problem(theirs.post("/contexts"), 404)


def test_a_repeated_context_request_is_recorded_once(three: Agent) -> None:
    key = {"Idempotency-Key": "context-1"}
    first, again = (three.post("/contexts", {"policy": "live"}, key) for _ in range(2))
    assert (first.status, again.status) == (201, 201)
    assert first.body == again.body
    assert again.headers["Idempotency-Replayed"] == "true"
    assert Snapshot.objects.count() == 1
    assert_problem(three.post("/contexts", {"policy": "masked"}, key), 422, "another request")


def test_an_unchanged_context_is_not_sent_again(three: Agent) -> None:
    tag = {"If-None-Match": three.get("/contexts").headers["ETag"]}
    assert three.get("/contexts", tag).status == 304
    three.append(ask("and now?"))
    assert three.get("/contexts", tag).status == 200


def test_the_provider_counts_tokens_on_request(three: Agent, loopback: Loopback) -> None:
    served = context(three, model="claude-opus-4-5", count=True)
    assert served["tokens"]["counted"] > 0
    assert Snapshot.objects.get().counted == served["tokens"]["counted"]
    (count_request,) = loopback.requests
    assert count_request.path == "/v1/messages/count_tokens"
    assert count_request.body["messages"] == served["request"]["messages"]


def test_the_error_of_a_missing_provider_key_names_its_variable(
    three: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    refused = three.post("/contexts", {"model": "claude-opus-4-5", "count": True})
    assert_problem(refused, 422, "ANTHROPIC_API_KEY")


def test_a_provider_that_cannot_count_is_a_502(
    three: Agent, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-wrong-0123456789")
    refused = three.post("/contexts", {"model": "claude-opus-4-5", "count": True})
    assert_problem(refused, 502, "does not accept the API key")
    assert "sk-wrong" not in json.dumps(refused.body)
    assert not Snapshot.objects.exists()


def test_the_size_of_the_tools_is_limited(run: Agent) -> None:
    """Each snapshot stores them."""
    run.step()
    largest = {"name": "a", "description": "x" * (1_000_000 - len('[{"name":"a","description":""}]'))}
    assert run.post("/contexts", {"tools": [largest], "max_tokens": None}).status == 201
    for path in ("/contexts", "/calls"):
        refused = run.post(path, {"tools": [{**largest, "name": "ab"}]})
        assert_problem(refused, 422)
        assert refused["detail"] == (
            "body.tools have more than 1,000,000 characters as JSON. Send fewer tools, or shorten them."
        )
