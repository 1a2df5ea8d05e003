"""Erasing a session over HTTP: what is deleted, what is refused, and what stays."""

import json
from typing import Any
from uuid import UUID

import pytest

from historyapp.models import AuditRecord, Entry, Episode, IdempotencyKey, Project, Session, Snapshot, Summary
from historyapp.services import retention
from historyapp.services.rewinds import fork
from tests.api.agent import Agent, ask
from tests.api.conftest import key_for
from tests.api.test_problems import assert_problem

ERASE = "?erase=true"
KEY = {"Idempotency-Key": "once"}
SECRET = "hunter2"


@pytest.fixture
def archived(run: Agent) -> Agent:
    run.append(ask(SECRET))
    run.step(outputs=SECRET)
    run.post("/contexts", {})
    run.post("/summaries", {"from_step": 1, "to_step": 1, "text": SECRET}, KEY)
    assert run.delete().status == 204
    return run


def test_an_archived_session_is_erased_with_all_its_data(
    alice: Agent, archived: Agent, session_id: str
) -> None:
    receipt = archived.delete(ERASE)
    assert receipt.status == 200
    assert receipt.body == {"session": session_id, "entries": 3, "steps": 1}
    for model in (Session, Entry, Episode, Summary, Snapshot):
        assert model._default_manager.count() == 0, model
    assert archived.get().status == archived.delete(ERASE).status == 404
    assert alice.get("/sessions?status=all")["items"] == []
    assert alice.get(f"/search?q={SECRET}")["items"] == []


def test_stored_responses_and_details_of_audit_records_are_erased_too(
    archived: Agent, session_id: str
) -> None:
    archived.delete(ERASE)
    body = {"from_step": 1, "to_step": 1, "text": SECRET}
    assert_problem(archived.post("/summaries", body, KEY), 409, "since been purged")
    assert IdempotencyKey.objects.get().response == ""
    *others, record = AuditRecord.objects.filter(session=session_id).order_by("pk")
    assert {json.dumps(other.detail) for other in others} == {"{}"}
    assert (record.action, record.detail) == ("purge", {"entries": 3, "steps": 1})
    assert record.actor.startswith("key:ph_")


@pytest.mark.parametrize("status", ["live", "finished"])
def test_only_an_archived_session_is_erased(archived: Agent, status: str) -> None:
    archived.patch("", {"status": status})
    assert_problem(archived.delete(ERASE), 409, f"The session is {status}. Archive it first")
    assert Entry.objects.count() == 3


def test_forks_are_named_and_must_be_erased_first(alice: Agent, archived: Agent, session_id: str) -> None:
    archived.patch("", {"status": "live"})
    child = archived.post("/forks", {"at_step": 1})["id"]
    archived.delete()
    refused = archived.delete(ERASE)
    assert_problem(refused, 409, f"shares its entries with its forks {child}. Erase these forks first.")
    assert refused["forks"] == [child]
    fork_agent = alice.within(f"/sessions/{child}")
    fork_agent.delete()
    assert fork_agent.delete(ERASE)["entries"] == 0
    assert archived.delete(ERASE)["entries"] == 3


def test_many_forks_are_not_all_named(archived: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_MAX_FORKS", 1)
    archived.patch("", {"status": "live"})
    for _ in range(2):
        archived.post("/forks", {"at_step": 1})
    archived.delete()
    refused = archived.delete(ERASE)
    assert len(refused["forks"]) == 1
    assert "and more. Erase" in refused["detail"]


def test_a_fork_made_meanwhile_keeps_the_session(
    archived: Agent, project: Project, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = retention._delete

    def delete_late(*arguments: Any) -> Any:
        Session.objects.filter(pk=session_id).update(status="live")
        fork(project, UUID(session_id), at_step=1)
        Session.objects.filter(pk=session_id).update(status="archived")
        return delete(*arguments)

    monkeypatch.setattr(retention, "_delete", delete_late)
    assert_problem(archived.delete(ERASE), 409, "shares its entries with its forks")
    assert Entry.objects.count() == 3


def test_a_long_session_is_left_to_the_command(archived: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "MAX_ERASED", 2)
    assert_problem(archived.delete(ERASE), 409, "more than 2 entries")
    assert Entry.objects.count() == 3


def test_erasing_needs_the_scope_admin(archived: Agent, project: Project, session_id: str) -> None:
    writer = Agent(key_for(project, "writer", ("read", "write", "spend")))
    assert_problem(writer.delete(f"/sessions/{session_id}{ERASE}"), 403, "lacks the scope `admin`")
    assert Entry.objects.count() == 3


def test_a_stranger_gets_404_and_erases_nothing(archived: Agent, charlie: Agent, session_id: str) -> None:
    assert charlie.delete(f"/sessions/{session_id}{ERASE}").status == 404
    assert Entry.objects.count() == 3


def test_another_value_of_the_parameter_is_refused(archived: Agent) -> None:
    assert_problem(archived.delete("?erase=1"), 422, "erase")
    assert Entry.objects.count() == 3
