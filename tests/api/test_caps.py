"""Spending caps of the project, its sessions and its keys are set and read through the API."""

from typing import Any

import pytest

from historyapp.models import ApiKey, Project
from tests.api.agent import Agent, ask
from tests.api.conftest import key_for
from tests.api.test_problems import assert_problem
from tests.llm.loopback import Loopback

CALL = {"model": "gpt-5", "policy": "live"}


@pytest.fixture
def spender(project: Project) -> Agent:
    """A key of Alice's project that may spend and has a name of its own."""
    return Agent(key_for(project, "spender", ("read", "write", "spend")))


def shown(response: Any) -> list[tuple[Any, ...]]:
    return [(cap["subject"], cap["period"], cap["limit"], cap["left"]) for cap in response["items"]]


def test_caps_of_project_session_and_key_are_set_and_listed(alice: Agent, run: Agent, spender: Agent) -> None:
    session = run.get("")["id"]
    prefix = ApiKey.objects.get(name="spender").prefix
    assert shown(alice.patch("/caps", {"daily_cap": 5, "monthly_cap": 50})) == [
        ("project", "day", 5.0, 5.0),
        ("project", "month", 50.0, 50.0),
    ]
    of_session = alice.patch("/caps", {"session": session, "daily_cap": 0.5})
    assert of_session["items"][0]["session"] == session
    of_key = alice.patch("/caps", {"key": prefix, "monthly_cap": 2})
    assert (of_key["items"][0]["key"], of_key["items"][0]["session"]) == (prefix, None)
    assert len(alice.get("/caps")["items"]) == 4
    assert shown(alice.get(f"/caps?session={session}")) == [("session", "day", 0.5, 0.5)]
    assert shown(alice.get(f"/caps?key={prefix}")) == [("key", "month", 2.0, 2.0)]
    assert shown(alice.patch("/caps", {"key": prefix, "monthly_cap": None})) == []
    first = alice.get("/caps?limit=2")
    assert len(first["items"]) == 2
    assert len(alice.get(f"/caps?limit=2&cursor={first['next']}")["items"]) == 1


def test_a_model_call_with_a_capped_key_is_refused_and_other_keys_work(
    alice: Agent, run: Agent, spender: Agent, loopback: Loopback
) -> None:
    run.append(ask("find it"))
    session, prefix = run.get("")["id"], ApiKey.objects.get(name="spender").prefix
    alice.patch("/caps", {"key": prefix, "daily_cap": 0})
    refused = spender.within(f"/sessions/{session}").post("/calls", CALL)
    assert_problem(refused, 402, f"The API key {prefix}…", "The next day begins at")
    assert (refused["subject"], refused["key"]) == ("key", prefix)
    assert loopback.requests == []
    assert run.post("/calls", CALL).status == 200
    (cap,) = alice.get(f"/caps?key={prefix}")["items"]
    assert cap["spent"] == 0


def test_a_model_call_counts_in_the_caps_of_project_session_and_key(
    alice: Agent, run: Agent, spender: Agent, loopback: Loopback
) -> None:
    run.append(ask("find it"))
    session, prefix = run.get("")["id"], ApiKey.objects.get(name="spender").prefix
    for subject in ({}, {"session": session}, {"key": prefix}):
        alice.patch("/caps", {**subject, "monthly_cap": 5})
    assert spender.within(f"/sessions/{session}").post("/calls", CALL).status == 200
    spent = {cap["spent"] for cap in alice.get("/caps")["items"]}
    assert spent == {run.get("/ledger")["money"]}


def test_caps_of_another_project_cannot_be_read_or_set(alice: Agent, run: Agent, charlie: Agent) -> None:
    session, prefix = run.get("")["id"], ApiKey.objects.filter(project__name="Alice's")[0].prefix
    alice.patch("/caps", {"session": session, "daily_cap": 5})
    assert charlie.get(f"/caps?session={session}")["items"] == []
    assert_problem(charlie.patch("/caps", {"session": session, "daily_cap": 5}), 404)
    assert_problem(charlie.patch("/caps", {"key": prefix, "daily_cap": 5}), 404)


@pytest.mark.parametrize(
    "scopes", [("read", "write"), ("read", "write", "admin"), ("read", "write", "spend")]
)
def test_setting_a_cap_needs_admin_and_spend(project: Project, scopes: tuple[str, ...]) -> None:
    agent = Agent(key_for(project, "agent", scopes))
    refused = agent.patch("/caps", {"daily_cap": 1000})
    assert_problem(refused, 403)
    assert refused["scope"] == ("spend" if "admin" in scopes else "admin")
    assert agent.get("/caps")["items"] == []


@pytest.mark.parametrize(
    "body", [{"daily_cap": -1}, {"daily_cap": 1e10}, {"daily_cap": "5"}, {"session": "x"}, {"cap": 1}]
)
def test_an_invalid_cap_is_refused(alice: Agent, body: dict[str, Any]) -> None:
    assert_problem(alice.patch("/caps", body), 422)


def test_a_cap_of_both_session_and_key_is_refused(alice: Agent, run: Agent) -> None:
    both = {"session": run.get("")["id"], "key": "ph_x", "daily_cap": 1}
    assert_problem(alice.patch("/caps", both), 422, "a session or to a key")


def test_the_ledger_lists_caps_of_session_and_key(
    alice: Agent, run: Agent, spender: Agent, loopback: Loopback
) -> None:
    run.append(ask("find it"))
    session, prefix = run.get("")["id"], ApiKey.objects.get(name="spender").prefix
    asking = spender.within(f"/sessions/{session}")
    first = asking.get("/ledger")
    assert first["caps"] == []
    for subject in ({}, {"session": session}, {"key": prefix}):
        alice.patch("/caps", {**subject, "daily_cap": 5})
    tag = {"If-None-Match": first.headers["ETag"]}
    shown = asking.get("/ledger", tag)
    assert [cap["subject"] for cap in shown["caps"]] == ["project", "session", "key"]
    assert [cap["subject"] for cap in run.get("/ledger")["caps"]] == ["project", "session"]
    assert run.post("/calls", CALL).status == 200
    after = asking.get("/ledger", {"If-None-Match": shown.headers["ETag"]})
    assert [cap["spent"] for cap in after["caps"]] == [after["money"], after["money"], 0]
    again = asking.get("/ledger", {"If-None-Match": after.headers["ETag"]})
    assert again.status == 304
