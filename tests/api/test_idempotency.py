"""The same request with the same key is carried out once and answered alike."""

from typing import Any

import pytest

from historyapp.models import Entry, IdempotencyKey
from tests.api.agent import Agent, said
from tests.api.test_problems import assert_problem
from tests.api.test_transfers import file

KEY = {"Idempotency-Key": "a-key"}
REPLAYED = "Idempotency-Replayed"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/entries", {"entries": [said()]}),
        ("/actions", {"use_tool": {"name": "ls"}}),
        ("/steps", {"analysis_result": "", "execution_result": "", "supervision_result": ""}),
        ("/summaries", {"from_step": 1, "to_step": 1, "text": "\ud800"}),
        ("/rewinds", {"episodes": 1}),
        ("/forks", {}),
    ],
)
def test_every_write_is_carried_out_once(run: Agent, path: str, body: dict[str, Any]) -> None:
    run.step()
    first = run.post(path, body, KEY)
    head, entries = run.get()["head"], Entry.objects.count()
    again = run.post(path, body, KEY)
    assert first.status == 201
    assert (again.status, again.body) == (first.status, first.body)
    assert (REPLAYED in first.headers, again.headers[REPLAYED]) == (False, "true")
    assert (run.get()["head"], Entry.objects.count()) == (head, entries)


def test_a_session_is_made_once(alice: Agent) -> None:
    first = alice.post("/sessions", {"title": "a"}, KEY)
    assert alice.post("/sessions", {"title": "a"}, KEY).body == first.body
    assert len(alice.get("/sessions")["items"]) == 1


def test_a_result_is_registered_once(run: Agent) -> None:
    run.act()
    first = run.post("/results", {"status": "success"}, KEY)
    assert run.post("/results", {"status": "success"}, KEY).body == first.body


def test_an_undo_is_done_once(run: Agent) -> None:
    run.step()
    run.post("/rewinds", {"to_step": 0})
    first = run.post("/rewinds/3/undo", {}, KEY)
    assert (first.status, run.post("/rewinds/3/undo", {}, KEY).body) == (201, first.body)


def test_an_import_is_done_once(alice: Agent) -> None:
    first = alice.upload("/imports", {"files": file()}, KEY)
    again = alice.upload("/imports", {"files": file()}, KEY)
    assert (again.status, again.body, again.headers[REPLAYED]) == (201, first.body, "true")
    assert_problem(alice.upload("/imports", {"files": file("junk")}, KEY), 422, "another request")
    assert_problem(alice.upload("/imports", {"files": file(name="b.json")}, KEY), 422, "another request")


def test_a_key_belongs_to_one_request(run: Agent) -> None:
    run.post("/entries", {"entries": [said("1")]}, KEY)
    assert_problem(run.post("/entries", {"entries": [said("2")]}, KEY), 422, "another request")
    assert_problem(run.post("/rewinds", {}, KEY), 422, "another request")
    assert run.get()["head"] == 1


def test_a_request_that_failed_may_be_sent_again(run: Agent) -> None:
    assert run.post("/results", {"status": "success"}, KEY).status == 409
    run.act()
    assert run.post("/results", {"status": "success"}, KEY).status == 201


def test_a_failed_write_leaves_no_key(run: Agent) -> None:
    run.post(
        "/entries", {"entries": [said(), {"kind": "tool_results", "results": [{"status": "success"}]}]}, KEY
    )
    assert not IdempotencyKey.objects.exists()
    assert not Entry.objects.exists()


def test_keys_of_two_projects_do_not_meet(alice: Agent, charlie: Agent) -> None:
    assert alice.post("/sessions", {}, KEY)["id"] != charlie.post("/sessions", {}, KEY)["id"]


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "a\tb", "ä", "a\x7f"])
def test_an_odd_key_is_refused(run: Agent, key: str) -> None:
    refused = run.post("/entries", {"entries": [said()]}, {"Idempotency-Key": key})
    assert_problem(refused, 422, "Idempotency-Key", "255")
    assert run.get()["head"] == 0


def test_a_key_may_be_255_long(run: Agent) -> None:
    assert run.post("/entries", {"entries": [said()]}, {"Idempotency-Key": "x" * 255}).status == 201


def test_a_key_on_a_read_means_nothing(run: Agent) -> None:
    assert run.get("", KEY).status == run.get("", {"Idempotency-Key": "a b"}).status == 200
