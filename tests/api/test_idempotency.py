"""Two requests with the same Idempotency-Key are carried out once and get the same response."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.utils import timezone

from historyapp.api import contexts
from historyapp.core import prepared
from historyapp.core.entries import EntryDraft
from historyapp.core.prepared import Prepared
from historyapp.models import Entry, IdempotencyKey, Project, Session, Snapshot
from historyapp.models.projects import PURGED
from historyapp.services import actions, append, idempotency, snapshots
from historyapp.services.retention import purge, purgeable
from tests.api.agent import Agent, ask
from tests.api.test_problems import assert_problem
from tests.api.test_transfers import file

KEY = {"Idempotency-Key": "a-key"}
REPLAYED = "Idempotency-Replayed"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/entries", {"entries": [ask()]}),
        ("/actions", {"use_tool": {"name": "ls"}}),
        ("/steps", {"analysis_result": "", "execution_result": "", "supervision_result": ""}),
        ("/summaries", {"from_step": 1, "to_step": 1, "text": "\ud800"}),
        ("/rewinds", {"episodes": 1}),
        ("/forks", {}),
    ],
)
def test_every_repeated_write_is_processed_once(run: Agent, path: str, body: dict[str, Any]) -> None:
    run.step()
    first = run.post(path, body, KEY)
    head, entries = run.get()["head"], Entry.objects.count()
    again = run.post(path, body, KEY)
    assert first.status == 201
    assert (again.status, again.body) == (first.status, first.body)
    assert (REPLAYED in first.headers, again.headers[REPLAYED]) == (False, "true")
    assert (run.get()["head"], Entry.objects.count()) == (head, entries)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/entries", {"entries": [ask()]}),
        ("/actions", {"use_tool": {"name": "ls"}}),
        ("/steps", {"analysis_result": "", "execution_result": "", "supervision_result": ""}),
    ],
)
def test_entries_are_prepared_before_other_writers_have_to_wait(
    run: Agent, path: str, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting the tokens of a long entry takes seconds."""
    in_transaction = list[bool]()

    def prepare(draft: EntryDraft, tokens: int | None = None) -> Prepared:
        in_transaction.append(connection.in_atomic_block)
        return prepared.prepare(draft, tokens)

    for module in (append, actions):
        monkeypatch.setattr(module, "prepare", prepare)
    assert run.post(path, body, KEY).status == 201
    assert set(in_transaction) == {False}
    assert IdempotencyKey.objects.count() == 1


def test_of_two_equal_requests_at_once_one_is_carried_out(
    run: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run.post("/entries", {"entries": [ask()]}, KEY)
    monkeypatch.setattr(idempotency, "find_stored_response", lambda *_: None)  # as before the first one ended
    again = run.post("/entries", {"entries": [ask()]}, KEY)
    assert (again.status, again.body, again.headers[REPLAYED]) == (201, first.body, "true")
    assert run.get()["head"] == 1


def test_an_estimate_stores_no_key(alice: Agent, run: Agent) -> None:
    estimate = {"sessions": [run.get()["id"]], "strategy": "simple_extract"}
    for _ in range(2):
        response = alice.post("/bulk-actions/estimate", estimate, KEY)
        assert (response.status, REPLAYED in response.headers) == (200, False)
    assert not IdempotencyKey.objects.exists()


def test_a_repeated_request_creates_one_session(alice: Agent) -> None:
    first = alice.post("/sessions", {"title": "a"}, KEY)
    assert alice.post("/sessions", {"title": "a"}, KEY).body == first.body
    assert len(alice.get("/sessions")["items"]) == 1


def test_a_repeated_request_registers_one_result(run: Agent) -> None:
    run.act()
    first = run.post("/results", {"status": "success"}, KEY)
    assert run.post("/results", {"status": "success"}, KEY).body == first.body


def test_a_repeated_request_undoes_once(run: Agent) -> None:
    run.step()
    run.post("/rewinds", {"to_step": 0})
    first = run.post("/rewinds/3/undo", {}, KEY)
    assert (first.status, run.post("/rewinds/3/undo", {}, KEY).body) == (201, first.body)


def test_a_repeated_request_imports_once(alice: Agent) -> None:
    first = alice.upload("/imports", {"files": file()}, KEY)
    again = alice.upload("/imports", {"files": file()}, KEY)
    assert (again.status, again.body, again.headers[REPLAYED]) == (201, first.body, "true")
    assert_problem(alice.upload("/imports", {"files": file("junk")}, KEY), 422, "another request")
    assert_problem(alice.upload("/imports", {"files": file(name="b.json")}, KEY), 422, "another request")


def test_a_key_belongs_to_one_request(run: Agent) -> None:
    run.post("/entries", {"entries": [ask("1")]}, KEY)
    assert_problem(run.post("/entries", {"entries": [ask("2")]}, KEY), 422, "another request")
    assert_problem(run.post("/rewinds", {}, KEY), 422, "another request")
    assert run.get()["head"] == 1


def test_a_request_that_failed_can_be_sent_again(run: Agent) -> None:
    assert run.post("/results", {"status": "success"}, KEY).status == 409
    run.act()
    assert run.post("/results", {"status": "success"}, KEY).status == 201


def test_a_failed_write_leaves_no_key(run: Agent) -> None:
    run.post(
        "/entries", {"entries": [ask(), {"kind": "tool_results", "results": [{"status": "success"}]}]}, KEY
    )
    assert not IdempotencyKey.objects.exists()
    assert not Entry.objects.exists()


def test_the_same_key_can_be_used_in_two_projects(alice: Agent, charlie: Agent) -> None:
    assert alice.post("/sessions", {}, KEY)["id"] != charlie.post("/sessions", {}, KEY)["id"]


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "a\tb", "ä", "a\x7f"])
def test_an_invalid_key_is_refused(run: Agent, key: str) -> None:
    refused = run.post("/entries", {"entries": [ask()]}, {"Idempotency-Key": key})
    assert_problem(refused, 422, "Idempotency-Key", "255")
    assert run.get()["head"] == 0


def test_a_key_can_have_255_characters(run: Agent) -> None:
    assert run.post("/entries", {"entries": [ask()]}, {"Idempotency-Key": "x" * 255}).status == 201


def test_a_key_on_a_read_is_ignored(run: Agent) -> None:
    assert run.get("", KEY).status == run.get("", {"Idempotency-Key": "a b"}).status == 200


def purge_everything(agent: Agent) -> None:
    for session in agent.get("/sessions")["items"]:
        agent.send("PATCH", f"/sessions/{session['id']}", b'{"status": "archived"}')
    project, limit = Project.objects.get(name="Alice's"), timezone.now() + timedelta(days=1)
    purge(project, [session.pk for session in purgeable(project, limit)], limit)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/sessions", {"title": "hunter2"}),
        ("/sessions/{id}/summaries", {"from_step": 1, "to_step": 1, "text": "hunter2"}),
        ("/sessions/{id}/forks", {"title": "hunter2"}),
        ("/sessions/{id}/entries", {"entries": [ask("hunter2")]}),
    ],
)
def test_a_repeated_request_does_not_return_purged_data(
    alice: Agent, run: Agent, path: str, body: dict[str, Any]
) -> None:
    run.step()
    path = path.format(id=run.get()["id"])
    assert alice.post(path, body, KEY).status == 201
    purge_everything(alice)
    again = alice.post(path, body, KEY)
    assert_problem(again, 409, "since been purged")
    assert "hunter2" not in str(again.body)
    assert alice.get("/sessions")["items"] == []
    assert IdempotencyKey.objects.get().response == ""


def test_a_repeated_import_does_not_restore_a_purged_session(alice: Agent) -> None:
    alice.upload("/imports", {"files": file()}, KEY)
    purge_everything(alice)
    assert_problem(alice.upload("/imports", {"files": file()}, KEY), 409, "since been purged")
    assert alice.get("/sessions")["items"] == []


def test_a_purge_keeps_stored_responses_of_other_sessions(alice: Agent) -> None:
    parent = alice.post("/sessions", {"title": "a"})["id"]
    body = {"title": "b", "spawned_by": parent}
    first = alice.post("/sessions", body, KEY)
    alice.send("PATCH", f"/sessions/{parent}", b'{"status": "archived"}')
    project, limit = Project.objects.get(name="Alice's"), timezone.now() + timedelta(days=1)
    assert purge(project, [UUID(parent)], limit).sessions == 1
    assert alice.post("/sessions", body, KEY).body == first.body


def test_a_purge_clears_responses_that_an_earlier_version_stored_without_a_session(
    alice: Agent, run: Agent
) -> None:
    run.step()
    run.post("/summaries", {"from_step": 1, "to_step": 1, "text": "hunter2"}, KEY)
    IdempotencyKey.objects.update(sessions=None)
    purge_everything(alice)
    assert IdempotencyKey.objects.get().response == ""


def test_a_long_response_is_not_stored_and_its_request_not_processed_again(
    run: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.post("/entries", {"entries": [ask("word " * 500)]})
    first = run.post("/contexts", {}, {"Idempotency-Key": "short"})
    assert run.post("/contexts", {}, {"Idempotency-Key": "short"}).body == first.body
    monkeypatch.setattr("historyapp.services.idempotency.KEPT_CHARACTERS", 1000)
    assert run.post("/contexts", {}, KEY).status == 201
    snapshots = Snapshot.objects.count()
    assert_problem(run.post("/contexts", {}, KEY), 409, "too long to keep")
    assert_problem(run.post("/contexts", {"record": False}, KEY), 422, "another request")
    assert Snapshot.objects.count() == snapshots
    assert IdempotencyKey.objects.get(key=KEY["Idempotency-Key"]).response == ""


def test_a_response_about_a_session_that_a_purge_has_hidden_is_not_stored(
    run: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The purge has already looked for the responses that it empties."""

    def hide_and_record(*arguments: Any, **options: Any) -> Snapshot:
        Project.objects.get_or_create(pk=PURGED)
        Session.objects.update(project=PURGED)
        return snapshots.record_snapshot(*arguments, **options)

    monkeypatch.setattr(contexts, "record_snapshot", hide_and_record)
    assert run.post("/contexts", {}, {"Idempotency-Key": "late"}).status == 201
    assert IdempotencyKey.objects.get(key="late").response == ""


def test_a_request_deletes_few_old_keys(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "_PURGE_EVERY", 1)
    monkeypatch.setattr(idempotency, "_PURGED_AT_ONCE", 4)
    monkeypatch.setattr(idempotency, "_MIN_KEPT_KEYS", 1)
    IdempotencyKey.objects.bulk_create(
        IdempotencyKey(
            project=project,
            key=f"old{number}",
            fingerprint="",
            status=201,
            response="",
            created_at=timezone.now() - timedelta(days=30),
        )
        for number in range(10)
    )
    kept = list[int]()
    for number in range(4):
        idempotency.carry_out_once(project, f"new{number}", "", lambda: idempotency.StoredResponse(201, "{}"))
        kept.append(IdempotencyKey.objects.filter(key__startswith="old").count())
    assert kept == [6, 2, 0, 0]
