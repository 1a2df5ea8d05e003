"""Actions on many sessions over the API, and exports of many sessions as one zip file."""

import json
import zipfile
from datetime import timedelta
from io import BytesIO
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import DataError
from django.test import Client
from django.utils import timezone

from historyapp import bulk_workers, tasks
from historyapp.models import AuditRecord, BulkAction, Change, CompressionRun, Project, Session
from historyapp.services.bulk import start
from historyapp.services.bulk.work import process_bulk_action
from historyapp.services.retention import purge
from historyapp.services.sessions import change_session
from tests.api.agent import Agent, ask
from tests.api.compressing import carry_out
from tests.api.conftest import Owner, key_for
from tests.api.test_problems import assert_problem


@pytest.fixture(scope="module")
def recorded(owner: Owner) -> list[str]:
    return [str(owner.agent.post("/sessions", {"title": f"run {number}"})["id"]) for number in range(3)]


@pytest.fixture
def sessions(recorded: list[str], db: None) -> list[str]:
    return recorded


def with_steps(alice: Agent, session: str, count: int = 12) -> None:
    output: dict[str, Any] = {"kind": "model_output", "use_tool": {"name": "ls"}}
    result: dict[str, Any] = {
        "kind": "tool_results",
        "results": [{"status": "success", "outputs": "fine " * 20}],
    }
    alice.within(f"/sessions/{session}").append(ask(), *[output, result] * count)


def finished(alice: Agent, action: str, sessions: list[str], **fields: Any) -> Any:
    """The outcome of an action after a worker has carried it out."""
    started = alice.post("/bulk-actions", {"action": action, "sessions": sessions, **fields})
    assert started.status == 202, started.body
    bulk_workers.work_on_bulk_actions()
    return alice.get(f"/bulk-actions/{started['id']}").body


def test_a_tag_is_added_and_removed(alice: Agent, sessions: list[str]) -> None:
    alice.patch(f"/sessions/{sessions[0]}", {"tags": ["to read"]})
    started = alice.post("/bulk-actions", {"action": "add_tag", "tag": "to read", "sessions": sessions})
    assert (started.status, started["state"], started["waiting"]) == (202, "running", 3)
    bulk_workers.work_on_bulk_actions()
    action = alice.get(f"/bulk-actions/{started['id']}")
    assert (action["state"], action["done"], action["unchanged"], action["total"]) == ("finished", 2, 1, 3)
    assert [item["state"] for item in action["items"]] == ["unchanged", "done", "done"]
    assert action["items"][0]["reason"] == "The session already has the tag."
    assert all(session.tags == ["to read"] for session in Session.objects.all())
    removed = finished(alice, "remove_tag", sessions[:2], tag="to read")
    assert removed["done"] == 2
    assert sorted(len(session.tags) for session in Session.objects.all()) == [0, 0, 1]


def test_archiving_and_unarchiving_report_unchanged_sessions(alice: Agent, sessions: list[str]) -> None:
    assert finished(alice, "archive", sessions[:2])["done"] == 2
    again = finished(alice, "archive", sessions)
    assert (again["done"], again["unchanged"]) == (1, 2)
    assert AuditRecord.objects.filter(action="status: archived").count() == 3
    assert finished(alice, "unarchive", sessions)["done"] == 3
    assert set(Session.objects.values_list("status", flat=True)) == {"finished"}


def test_missing_sessions_are_named_and_the_others_changed(
    alice: Agent, charlie: Agent, sessions: list[str]
) -> None:
    foreign, unknown = charlie.post("/sessions", {"title": "secret"})["id"], str(uuid4())
    action = finished(alice, "add_tag", [foreign, sessions[0], unknown], tag="x")
    assert (action["done"], action["failed"]) == (1, 2)
    for item, id in ((action["items"][0], foreign), (action["items"][2], unknown)):
        assert item == {
            "session": id,
            "title": "",
            "state": "failed",
            "reason": f"There is no session {id}.",
            "compression": None,
        }
    assert charlie.get(f"/sessions/{foreign}")["tags"] == []
    assert charlie.get(f"/bulk-actions/{action['id']}").status == 404
    assert charlie.delete(f"/bulk-actions/{action['id']}").status == 404


def test_only_the_session_with_too_many_tags_fails(alice: Agent, sessions: list[str]) -> None:
    alice.patch(f"/sessions/{sessions[1]}", {"tags": [f"t{number}" for number in range(50)]})
    action = finished(alice, "add_tag", sessions, tag="x")
    assert [item["state"] for item in action["items"]] == ["done", "failed", "done"]
    assert "at most 50 tags" in action["items"][1]["reason"]


@pytest.mark.parametrize("error", [ValueError("unexpected"), DataError("out of range")])
def test_an_unexpected_error_fails_one_session_only(
    alice: Agent, sessions: list[str], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(project: Project, session: UUID, *arguments: Any, **options: Any) -> Any:
        if session == UUID(sessions[0]):
            raise error
        return change_session(project, session, *arguments, **options)

    monkeypatch.setattr("historyapp.services.bulk.work.change_session", change)
    action = finished(alice, "archive", sessions)
    assert (action["failed"], action["done"]) == (1, len(sessions) - 1)
    assert action["items"][0]["reason"].startswith("The server failed to do this.")


def test_a_repeated_request_starts_one_action(alice: Agent, sessions: list[str]) -> None:
    body = {"action": "compress", "strategy": "simple_extract", "sessions": sessions}
    first, second = (alice.post("/bulk-actions", body, {"Idempotency-Key": "k"}) for _ in range(2))
    assert first.body == second.body
    assert second.headers["Idempotency-Replayed"] == "true"
    assert BulkAction.objects.count() == 1
    assert (
        alice.post("/bulk-actions", {**body, "sessions": sessions[:1]}, {"Idempotency-Key": "k"}).status
        == 422
    )


@pytest.mark.parametrize(
    ("wrong", "detail"),
    [
        ({"action": "delete"}, "action"),
        ({"action": "add_tag"}, "A tag has at least one character"),
        ({"action": "add_tag", "tag": ""}, "tag"),
        ({"action": "archive", "tag": "x"}, "Only the actions `add_tag`"),
        ({"action": "archive", "model": "local"}, "Only the action `compress`"),
        ({"action": "archive", "sessions": []}, "sessions"),
        ({"action": "archive", "sessions": ["x"]}, "UUID"),
        ({"action": "archive", "sessions": [str(uuid4())] * 501}, "500"),
        ({"action": "compress", "max_cost": -1}, "max_cost"),
        ({"action": "archive", "odd": 1}, "odd"),
    ],
)
def test_an_invalid_action_is_refused(
    alice: Agent, sessions: list[str], wrong: dict[str, Any], detail: str
) -> None:
    refused = alice.post("/bulk-actions", {"sessions": sessions, **wrong})
    assert refused.status == 422, refused.body
    assert detail in json.dumps(refused.body)
    assert not BulkAction.objects.exists()


def test_a_cancelled_action_starts_no_further_items(alice: Agent, sessions: list[str]) -> None:
    started = alice.post("/bulk-actions", {"action": "archive", "sessions": sessions})
    cancelled = alice.delete(f"/bulk-actions/{started['id']}")
    assert (cancelled["state"], cancelled["waiting"]) == ("cancelled", 3)
    bulk_workers.work_on_bulk_actions()
    assert set(Session.objects.values_list("status", flat=True)) == {"live"}
    assert_problem(alice.delete(f"/bulk-actions/{started['id']}"), 409, "nothing to cancel")


def test_compressions_are_started_and_counted_until_they_end(alice: Agent, sessions: list[str]) -> None:
    with_steps(alice, sessions[0])
    with_steps(alice, sessions[1])
    alice.patch(f"/sessions/{sessions[1]}", {"status": "archived"})
    action = finished(alice, "compress", sessions, strategy="simple_extract")
    assert (action["state"], action["under_way"], action["failed"], action["unchanged"]) == (
        "running",
        1,
        1,
        1,
    )
    assert "archived" in action["items"][1]["reason"]
    assert "nothing to compress" in action["items"][2]["reason"]
    run = CompressionRun.objects.get(pk=action["items"][0]["compression"])
    assert run.actor.startswith("key:ph_")
    carry_out(run.pk)
    ended = alice.get(f"/bulk-actions/{action['id']}")
    assert (ended["state"], ended["done"], ended["under_way"]) == ("finished", 1, 0)


def test_cancelling_an_action_cancels_its_compressions(alice: Agent, sessions: list[str]) -> None:
    with_steps(alice, sessions[0])
    action = finished(alice, "compress", sessions[:1], strategy="simple_extract")
    cancelled = alice.delete(f"/bulk-actions/{action['id']}")
    assert (cancelled["state"], cancelled["cancelled"]) == ("cancelled", 1)
    assert CompressionRun.objects.get().state == "cancelled"


def test_an_estimate_starts_nothing(alice: Agent, charlie: Agent, sessions: list[str]) -> None:
    with_steps(alice, sessions[0])
    with_steps(alice, sessions[1], 10)
    foreign = charlie.post("/sessions")["id"]
    body = {"sessions": [*sessions, foreign], "strategy": "simple_extract"}
    estimate = alice.post("/bulk-actions/estimate", body)
    assert (estimate["sessions"], estimate["nothing_to_do"], estimate["steps"]) == (2, 1, 14)
    assert (estimate["calls"], estimate["money"], estimate["models"]) == (0, 0, [])
    assert estimate["refused"] == [
        {"session": foreign, "title": "", "reason": f"There is no session {foreign}."}
    ]
    assert not CompressionRun.objects.exists()
    assert not BulkAction.objects.exists()


def test_no_money_is_spent_without_a_request(
    alice: Agent, project: Project, sessions: list[str], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    with_steps(alice, sessions[0])
    body = {"sessions": sessions, "strategy": "ai_summary", "model": "openai:gpt-5-mini"}
    estimated = alice.post("/bulk-actions/estimate", body)
    assert estimated["calls"] > 0
    cost = estimated["money"]
    refused = alice.post("/bulk-actions", {"action": "compress", **body})
    assert_problem(refused, 409, "no max_cost was given", "gpt-5-mini", "local")
    assert refused["money"] == cost
    assert_problem(alice.post("/bulk-actions", {"action": "compress", "max_cost": cost / 2, **body}), 409)
    poor = Agent(key_for(project, "poor", ("read", "write")))
    reported = poor.post("/bulk-actions/estimate", body)
    assert (reported["sessions"], reported["calls"]) == (0, 0)
    assert "lacks the scope `spend`" in reported["refused"][0]["reason"]
    assert not BulkAction.objects.exists()
    assert alice.post("/bulk-actions", {"action": "compress", "max_cost": cost, **body}).status == 202
    # What the action asks for later is checked again: the key may have lost the scope.
    action = BulkAction.objects.get()
    action.api_key = project.api_keys.get(name="poor")
    action.save()
    bulk_workers.work_on_bulk_actions()
    assert not CompressionRun.objects.filter(total__gt=0).exists()
    assert "lacks the scope `spend`" in action.items.order_by("number").first().reason  # type: ignore[union-attr]


def test_many_sessions_are_exported_as_one_zip(
    alice: Agent, project: Project, charlie: Agent, sessions: list[str]
) -> None:
    with_steps(alice, sessions[0])
    foreign = charlie.post("/sessions", {"title": "secret"})["id"]
    key = key_for(project, "exporter")
    ids = [*sessions, foreign]
    response = Client(headers={"Authorization": f"Bearer {key}"}).post(
        "/api/v1/exports", {"sessions": ids, "format": "markdown"}, content_type="application/json"
    )
    assert response.headers["Content-Type"] == "application/zip"
    with zipfile.ZipFile(BytesIO(b"".join(response.streaming_content))) as archive:  # type: ignore[attr-defined]
        assert archive.testzip() is None
        index = json.loads(archive.read("index.json"))
        assert [file["session"] for file in index["files"]] == sessions
        assert index["not_exported"] == [{"session": foreign, "reason": f"There is no session {foreign}."}]
        assert len(archive.namelist()) == 4
        assert "run 0" in archive.read(index["files"][0]["file"]).decode()
    assert AuditRecord.objects.filter(action="export").count() == 3


def test_an_export_without_sessions_or_format_is_refused(alice: Agent, sessions: list[str]) -> None:
    assert_problem(alice.post("/exports", {"sessions": []}), 422)
    assert_problem(alice.post("/exports", {"sessions": sessions, "format": "pdf"}), 422, "markdown")


def test_a_second_worker_continues_where_the_first_stopped(alice: Agent, sessions: list[str]) -> None:
    started = alice.post("/bulk-actions", {"action": "add_tag", "tag": "x", "sessions": sessions})
    stops = iter([False, False, True])
    assert not process_bulk_action(UUID(started["id"]), lambda: next(stops), lambda _: None)
    between = alice.get(f"/bulk-actions/{started['id']}")
    assert (between["state"], between["done"], between["waiting"]) == ("running", 2, 1)
    bulk_workers.work_on_bulk_actions()
    action = alice.get(f"/bulk-actions/{started['id']}")
    assert (action["state"], action["done"], action["unchanged"]) == ("finished", 3, 0)
    assert Change.objects.filter(kind="session_changed").count() == 3


def test_a_sweep_deletes_old_actions_that_have_ended(alice: Agent, sessions: list[str]) -> None:
    finished(alice, "add_tag", sessions, tag="x")
    left = alice.post("/bulk-actions", {"action": "archive", "sessions": sessions})["id"]
    BulkAction.objects.update(created_at=timezone.now() - timedelta(days=400))
    tasks.sweep()
    assert [str(action.pk) for action in BulkAction.objects.all()] == [left]


def test_a_project_has_a_limited_number_of_running_actions(
    alice: Agent, sessions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "MAX_RUNNING", 2)
    body = {"action": "archive", "sessions": sessions}
    BulkAction.objects.create(project=Project.objects.create(name="other"), kind="archive")
    running = [alice.post("/bulk-actions", body)["id"] for _ in range(2)]
    assert_problem(alice.post("/bulk-actions", body), 409, "2 bulk actions of this project are running")
    alice.delete(f"/bulk-actions/{running[0]}")
    assert alice.post("/bulk-actions", body)["state"] == "running"


def test_a_stored_response_does_not_name_a_purged_session(
    alice: Agent, project: Project, sessions: list[str]
) -> None:
    body, key = {"action": "archive", "sessions": sessions[:1]}, {"Idempotency-Key": "k"}
    started = alice.post("/bulk-actions", body, key)
    bulk_workers.work_on_bulk_actions()
    purge(project, [UUID(sessions[0])], timezone.now() + timedelta(days=1))
    assert not Session.objects.filter(pk=sessions[0]).exists()
    assert_problem(alice.post("/bulk-actions", body, key), 409, "purged")
    (item,) = alice.get(f"/bulk-actions/{started['id']}")["items"]
    assert (item["title"], item["state"]) == ("", "done")


def test_readers_cannot_start_actions(project: Project, sessions: list[str]) -> None:
    reader = Agent(key_for(project, "reader", ("read",)))
    body = {"action": "archive", "sessions": sessions}
    assert_problem(reader.post("/bulk-actions", body), 403, "write")
    assert_problem(reader.post("/exports", {"sessions": sessions}), 403, "write")
    assert not BulkAction.objects.exists()
