"""A request needs a usable key of the project, and may do only what the scopes of the key allow."""

import json
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from historyapp.models import ApiKey, Membership, Project
from historyapp.services.keys import create_key
from tests.api.agent import Agent
from tests.api.conftest import key_for


def test_a_request_without_a_key_is_refused(db: None) -> None:
    refused = Agent(None).get("/sessions")
    assert refused.status == 401
    assert refused.headers["WWW-Authenticate"] == 'Bearer realm="playhead"'
    assert "Authorization: Bearer" in refused["detail"]


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", "Basic YTpi", "ph_abc", "Bearer ph_unknown", "Bearer \xff"]
)
def test_the_error_of_an_unknown_key_has_no_details(db: None, header: str) -> None:
    refused = Agent(None).get("/sessions", {"Authorization": header})
    assert refused.status == 401
    assert refused["type"] == "/docs/errors#unauthenticated"
    assert "expired" not in refused["detail"]
    assert "revoked" not in refused["detail"]


def test_the_error_of_an_expired_key_says_so(project: Project) -> None:
    _, text = create_key(project, "old", expires_at=timezone.now() - timedelta(seconds=1))
    refused = Agent(text).get("/sessions")
    assert refused.status == 401
    assert "expired" in refused["detail"]
    assert 'error="invalid_token"' in refused.headers["WWW-Authenticate"]


def test_the_error_of_a_revoked_key_says_so(project: Project, alice: Agent) -> None:
    ApiKey.objects.update(revoked_at=timezone.now())
    refused = alice.get("/sessions")
    assert refused.status == 401
    assert "revoked" in refused["detail"]


def test_a_key_that_expires_later_works(project: Project) -> None:
    _, text = create_key(project, "young", expires_at=timezone.now() + timedelta(days=1))
    assert Agent(text).get("/sessions").status == 200


@pytest.mark.parametrize(
    ("scopes", "statuses"),
    [
        (("read",), [200, 403, 403, 403]),
        (("write",), [403, 201, 200, 403]),
        (("admin",), [403, 403, 403, 204]),
    ],
)
def test_each_method_needs_its_scope(
    project: Project, session_id: str, scopes: tuple[str, ...], statuses: list[int]
) -> None:
    agent = Agent(key_for(project, "narrow", scopes))
    responses = [
        agent.get("/sessions"),
        agent.post("/sessions"),
        agent.patch(f"/sessions/{session_id}", {"title": "x"}),
        agent.delete(f"/sessions/{session_id}"),
    ]
    assert [response.status for response in responses] == statuses
    refused = [response for response in responses if response.status == 403]
    assert all(response["scope"] in response["detail"] for response in refused)


def test_the_cookie_of_a_signed_in_browser_is_ignored(project: Project) -> None:
    user = User.objects.create_user("alice")
    Membership.objects.create(project=project, user=user, is_owner=True)
    browser = Client()
    browser.force_login(user)
    assert browser.get("/api/v1/sessions").status_code == 401
    assert browser.post("/api/v1/sessions", "{}", "application/json").status_code == 401


def test_the_last_use_of_a_key_is_stored_to_the_minute(project: Project) -> None:
    key, text = create_key(project, "fresh")
    assert key.last_used_at is None
    Agent(text).get("/sessions")
    key.refresh_from_db()
    first = key.last_used_at
    assert first is not None
    Agent(text).get("/sessions")
    key.refresh_from_db()
    assert key.last_used_at == first


def test_a_request_succeeds_if_the_last_use_cannot_be_stored(
    project: Project, alice: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr("historyapp.api.auth.record_use", locked)
    assert alice.get("/sessions").status == 200


def test_bob_sees_alices_sessions_and_charlie_does_not(
    alice: Agent, bob: Agent, charlie: Agent, session_id: str
) -> None:
    assert bob.get(f"/sessions/{session_id}")["title"] == "a run"
    assert [item["id"] for item in bob.get("/sessions")["items"]] == [session_id]
    assert charlie.get("/sessions")["items"] == []


SNAPSHOT = "0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c99"
RUN = "0197c7da-5b2e-7e10-8a00-6a1b2c3d4e5f"
CALLS = [
    ("GET", "", None),
    ("PATCH", "", {"title": "mine"}),
    ("DELETE", "", None),
    ("GET", "/entries", None),
    ("POST", "/entries", {"entries": [{"kind": "model_input", "content": "go"}]}),
    ("GET", "/entries/1", None),
    ("POST", "/actions", {"use_tool": {"name": "ls"}}),
    ("POST", "/results", {"status": "success"}),
    ("POST", "/steps", {"analysis_result": "", "execution_result": "", "supervision_result": ""}),
    ("GET", "/episodes", None),
    ("GET", "/stream", None),
    ("GET", "/episodes/1", None),
    ("GET", "/episodes/1/request", None),
    ("GET", "/episodes/1/origins", None),
    ("PUT", "/episodes/1/note", {"text": "x"}),
    ("DELETE", "/episodes/1/note", None),
    ("GET", "/notes", None),
    ("GET", "/progress", None),
    ("GET", "/history", None),
    ("GET", "/messages", None),
    ("GET", "/summaries", None),
    ("POST", "/summaries", {"from_step": 1, "to_step": 1, "text": "x"}),
    ("GET", "/compressions", None),
    ("POST", "/compressions", {}),
    ("GET", "/compressions/estimate", None),
    ("GET", f"/compressions/{RUN}", None),
    ("DELETE", f"/compressions/{RUN}", None),
    ("POST", f"/compressions/{RUN}/retries", None),
    ("POST", "/comparisons", {"from_step": 1, "to_step": 1, "sides": [{}, {}]}),
    ("GET", f"/comparisons/{RUN}", None),
    ("GET", f"/comparisons/{RUN}/rows", None),
    ("GET", "/rewinds", None),
    ("POST", "/rewinds", {}),
    ("POST", "/rewinds/1/undo", {}),
    ("POST", "/forks", {}),
    ("GET", "/export", None),
    ("GET", "/contexts", None),
    ("POST", "/contexts", {"format": "openai_chat"}),
    ("POST", "/calls", {"model": "gpt-5-mini"}),
    ("GET", "/snapshots", None),
    ("GET", f"/snapshots/{SNAPSHOT}", None),
    ("GET", f"/snapshots/{SNAPSHOT}/request", None),
    ("GET", f"/snapshots/{SNAPSHOT}/diff?with={SNAPSHOT}", None),
    ("GET", "/ledger", None),
    ("GET", "/ledger/steps", None),
    ("GET", "/overview", None),
    ("GET", "/find?q=x", None),
    ("GET", "/shares", None),
    ("POST", "/shares", {}),
    ("DELETE", f"/shares/{RUN}", None),
    ("GET", "/episodes/1/request", None),
]


@pytest.mark.parametrize(("method", "path", "body"), CALLS)
def test_a_stranger_gets_the_404_of_an_unknown_id(
    charlie: Agent, session_id: str, method: str, path: str, body: object
) -> None:
    def ask(id: str) -> tuple[int, object]:
        sent = b"" if body is None else json.dumps(body).encode()
        response = charlie.send(method, f"/sessions/{id}{path}", sent)
        return response.status, {**response.body, "detail": response["detail"].replace(id, "ID")}

    missing = ask("0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d")
    assert missing[0] == 404
    assert ask(session_id) == missing
    assert ask("not-a-uuid") == missing
    assert ask("12345") == missing
    assert ask(session_id[:-1]) == missing
    assert ask("0" * 300)[0] == 404


def test_the_list_of_calls_has_every_session_endpoint(alice: Agent) -> None:
    paths = alice.get("/openapi.json")["paths"]
    given = {
        "{position}": "1",
        "{number}": "1",
        "{snapshot_id}": SNAPSHOT,
        "{run_id}": RUN,
        "{share_id}": RUN,
        "{comparison_id}": RUN,
    }
    of_sessions = set()
    for path, calls in paths.items():
        _, of_session, rest = path.partition("{session_id}")
        for name, value in given.items():
            rest = rest.replace(name, value)
        of_sessions |= {(method.upper(), rest) for method in calls if of_session}
    assert of_sessions == {(method, path.partition("?")[0]) for method, path, _ in CALLS}
