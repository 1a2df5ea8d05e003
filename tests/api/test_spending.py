"""A request that calls a provider's model needs the scope ``spend``; other requests do not."""

import pytest

from historyapp.models import ApiKey, CompressionRun, Project
from historyapp.services.keys import change_scopes
from tests.api.agent import Agent, Received, ask, called, returned
from tests.api.conftest import key_for
from tests.api.test_problems import assert_problem
from tests.llm.loopback import Answer, Loopback


@pytest.fixture
def recorder(project: Project, run: Agent, loopback: Loopback) -> Agent:
    """A key of the same project without the scope ``spend``, at a session with six steps."""
    run.append(ask("Mend it"))
    for number in range(6):
        run.append(called(f"c{number}"), returned(f"c{number}"))
    session = run.get("")["id"]
    return Agent(key_for(project, "recorder", ("read", "write"))).within(f"/sessions/{session}")


def assert_refused(response: Received) -> None:
    assert_problem(response, 403, "spend", "playhead keys grant")
    assert response["scope"] == "spend"
    assert response["type"] == "/docs/errors#spend-forbidden"


def test_a_model_call_needs_the_scope(recorder: Agent, loopback: Loopback) -> None:
    head = recorder.get("")["head"]
    assert_refused(recorder.post("/calls", {"model": "gpt-5", "policy": "live"}))
    assert loopback.requests == []
    assert recorder.get("")["head"] == head


@pytest.mark.parametrize("fields", [{}, {"model": "gpt-5"}, {"strategy": "ai_summary"}])
def test_a_compression_by_a_paid_model_needs_the_scope(recorder: Agent, fields: dict[str, str]) -> None:
    assert_refused(recorder.post("/compressions", fields))
    sides = [{"strategy": "simple_extract"}, {"strategy": "episode_summary", **fields}]
    assert_refused(recorder.post("/comparisons", {"from_step": 1, "to_step": 2, "sides": sides}))
    assert not CompressionRun.objects.exists()


@pytest.mark.parametrize("fields", [{"model": "local"}, {"strategy": "simple_extract"}])
def test_a_compression_without_a_paid_model_needs_no_scope(recorder: Agent, fields: dict[str, str]) -> None:
    assert recorder.post("/compressions", fields).status == 202


def test_an_estimate_needs_no_scope(recorder: Agent) -> None:
    estimate = recorder.get("/compressions/estimate?model=gpt-5-mini")
    assert estimate["calls"] == 2
    assert estimate["money"] > 0


def test_a_retry_needs_the_scope_if_the_run_calls_a_paid_model(run: Agent, recorder: Agent) -> None:
    started = run.post("/compressions", {})
    assert started.status == 202
    run.delete(f"/compressions/{started['id']}")
    assert_refused(recorder.post(f"/compressions/{started['id']}/retries"))
    assert run.post(f"/compressions/{started['id']}/retries").status == 202


def test_a_granted_scope_is_valid_from_the_next_request(recorder: Agent, loopback: Loopback) -> None:
    change_scopes(ApiKey.objects.get(name="recorder"), add=["spend"])
    loopback.steps.append(Answer(text="Done."))
    assert recorder.post("/calls", {"model": "gpt-5", "policy": "live"}).status == 200
    assert len(loopback.requests) == 1
    change_scopes(ApiKey.objects.get(name="recorder"), remove=["spend"])
    assert_refused(recorder.post("/calls", {"model": "gpt-5", "policy": "live"}))


def test_turning_on_paid_automatic_compression_needs_the_scope(project: Project, db: None) -> None:
    admin = Agent(key_for(project, "operator", ("read", "write", "admin")))
    assert_refused(admin.patch("/project", {"paid_automatic_compression": True}))
    assert admin.patch("/project", {"paid_automatic_compression": False}).status == 200


def test_a_model_call_beyond_a_cap_is_refused_before_anything_is_sent(run: Agent, loopback: Loopback) -> None:
    run.append(ask("find it"))
    project = Agent(None)
    project._client = run._client
    changed = project.patch("/project", {"daily_cap": 0.000001, "monthly_cap": 5})
    assert [(cap["period"], cap["limit"], cap["spent"]) for cap in changed["caps"]] == [
        ("day", 0.000001, 0.0),
        ("month", 5.0, 0.0),
    ]
    refused = run.post("/calls", {"model": "gpt-5", "policy": "live"})
    assert_problem(refused, 402, "The next day begins at")
    assert refused["type"] == "/docs/errors#spending-cap-reached"
    assert refused["ends_at"] == changed["caps"][0]["ends_at"]
    assert loopback.requests == []


def test_a_model_call_below_the_cap_counts_with_its_cost(run: Agent, loopback: Loopback) -> None:
    run.append(ask("find it"))
    project = Agent(None)
    project._client = run._client
    project.patch("/project", {"daily_cap": 5})
    assert run.post("/calls", {"model": "gpt-5", "policy": "live"}).status == 200
    spent = project.get("/project")["caps"][0]["spent"]
    assert spent == run.get("/ledger")["money"] > 0
    assert loopback.requests[0].body["max_completion_tokens"] == 8192
    project.patch("/project", {"daily_cap": None})
    assert project.get("/project")["caps"] == []


def test_a_key_without_the_scope_cannot_raise_a_cap(project: Project, db: None) -> None:
    admin = Agent(key_for(project, "operator", ("read", "write", "admin")))
    assert_refused(admin.patch("/project", {"daily_cap": 1000}))


def test_a_count_by_the_provider_needs_the_scope(recorder: Agent, run: Agent, loopback: Loopback) -> None:
    fields = {"model": "claude-sonnet-4-5", "record": False, "count": True}
    assert_refused(recorder.post("/contexts", fields))
    assert loopback.requests == []
    assert recorder.post("/contexts", {**fields, "count": False}).status == 200
    assert run.post("/contexts", fields)["tokens"]["counted"] > 0


def test_a_model_that_is_not_listed_is_refused_and_nothing_is_sent(
    alice: Agent, run: Agent, loopback: Loopback
) -> None:
    run.append(ask("find it"))
    listed = ["claude-haiku-4-5", "openai:gpt-5-mini"]
    assert alice.patch("/project", {"allowed_models": [*listed, "local"]})["allowed_models"] == listed
    calls = (
        run.post("/calls", {"model": "gpt-5", "policy": "live"}),
        run.post("/calls", {"model": "gpt-5-mini", "provider": "openai_responses", "policy": "live"}),
        run.post("/contexts", {"model": "claude-sonnet-4-5", "record": False, "count": True}),
        run.post("/compressions", {"model": "gpt-5"}),
        run.get("/compressions/estimate?model=gpt-5"),
    )
    for refused in calls:
        assert_problem(refused, 403, "It allows claude-haiku-4-5, openai:gpt-5-mini.")
        assert refused["allowed_models"] == listed
        assert refused["type"] == "/docs/errors#model-not-allowed"
    assert loopback.requests == []
    assert run.post("/calls", {"model": "gpt-5-mini", "policy": "live"}).status == 200
    assert alice.patch("/project", {"allowed_models": None})["allowed_models"] == []
    assert run.post("/calls", {"model": "gpt-5", "policy": "live"}).status == 200


def test_only_a_key_that_may_spend_changes_the_list(project: Project, alice: Agent) -> None:
    admin = Agent(key_for(project, "operator", ("read", "write", "admin")))
    assert_refused(admin.patch("/project", {"allowed_models": []}))
    assert_problem(alice.patch("/project", {"allowed_models": ["bert"]}), 422, "No provider is known")
