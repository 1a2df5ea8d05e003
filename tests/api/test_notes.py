"""Bookmarks and notes belong to a step's place in the log."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.models import StepNote
from historyapp.services import notes
from tests.api.agent import Agent
from tests.api.test_problems import assert_problem


@pytest.fixture
def three(run: Agent) -> Agent:
    for number in range(1, 4):
        run.step("ls", number)
    return run


def note(run: Agent, number: int, text: str = "") -> dict[str, Any]:
    written = run.put(f"/episodes/{number}/note", {"text": text} if text else {})
    assert written.status == 200, written.body
    return dict(written.body)


def noted(run: Agent, query: str = "") -> list[tuple[int, str]]:
    return [(item["number"], item["text"]) for item in run.get(f"/notes{query}")["items"]]


def test_a_bookmark_is_a_note_without_text(three: Agent) -> None:
    made = note(three, 2)
    assert (made["number"], made["position"], made["text"]) == (2, 3, "")
    assert made["actor"].startswith("key:ph_")
    assert three.get("/notes")["items"] == [made]


def test_a_replaced_note_keeps_its_creation_time(three: Agent) -> None:
    first, second = note(three, -1, "why?"), note(three, 3, "because")
    assert noted(three) == [(3, "because")]
    assert second["created_at"] == first["created_at"] < second["updated_at"]


def test_a_note_can_be_deleted(three: Agent) -> None:
    note(three, 1, "x")
    assert three.delete("/episodes/1/note").status == 204
    assert noted(three) == []
    assert_problem(three.delete("/episodes/1/note"), 404, "Step 1 has no note")


def test_a_step_that_does_not_exist_cannot_be_noted(three: Agent) -> None:
    assert_problem(three.put("/episodes/4/note", {}), 404, "no step 4")


def test_a_rewind_moves_a_note_into_the_take_and_undo_restores_it(three: Agent) -> None:
    note(three, 3, "here it went wrong")
    position = three.post("/rewinds", {"to_step": 2})["position"]
    three.step("cat", "another third step")
    assert noted(three) == []
    assert noted(three, f"?as_of={position - 1}") == [(3, "here it went wrong")]
    assert three.post(f"/rewinds/{position}/undo").status == 201
    assert noted(three) == [(3, "here it went wrong")]


def test_a_step_of_a_take_can_be_noted(three: Agent) -> None:
    position = three.post("/rewinds", {"to_step": 1})["position"]
    assert three.put(f"/episodes/3/note?as_of={position - 1}", {"text": "cut"}).status == 200
    assert noted(three) == []
    assert noted(three, f"?as_of={position - 1}") == [(3, "cut")]


def test_a_fork_shares_the_notes_of_the_steps_that_it_shares(alice: Agent, three: Agent) -> None:
    note(three, 1, "shared")
    note(three, 3, "not shared")
    fork = alice.within(f"/sessions/{three.post('/forks', {'at_step': 2})['id']}")
    assert noted(fork) == [(1, "shared")]
    fork.step("ls", "its own third step")
    note(fork, 2, "written in the fork")
    note(fork, 3, "of the fork")
    assert noted(fork) == [(1, "shared"), (2, "written in the fork"), (3, "of the fork")]
    assert noted(three) == [(1, "shared"), (2, "written in the fork"), (3, "not shared")]


def test_a_note_changes_the_etag_of_the_notes(three: Agent) -> None:
    tag = three.get("/notes").headers["ETag"]
    assert three.get("/notes", {"If-None-Match": tag}).status == 304
    note(three, 1)
    assert three.get("/notes", {"If-None-Match": tag}).status == 200


def test_notes_are_paginated(three: Agent) -> None:
    for number in (3, 1, 2):
        note(three, number, str(number))
    first = three.get("/notes?limit=2")
    assert [item["number"] for item in first["items"]] == [1, 2]
    second = three.get(f"/notes?limit=2&cursor={first['next']}")
    assert [item["number"] for item in second["items"]] == [3]
    assert second["next"] is None


def test_the_list_can_show_only_noted_steps_in_both_orders(alice: Agent, three: Agent) -> None:
    for number in (1, 3):
        note(three, number)

    def listed(agent: Agent, query: str = "") -> list[int]:
        return [item["number"] for item in agent.get(f"/episodes?noted=true{query}")["items"]]

    assert listed(three) == [1, 3]
    assert listed(three, "&order=newest") == [3, 1]
    assert listed(three, "&from=2") == [3]
    assert listed(three, "&status=error") == []
    first = three.get("/episodes?noted=true&limit=1")
    assert listed(three, f"&limit=1&cursor={first['next']}") == [3]
    fork = alice.within(f"/sessions/{three.post('/forks', {'at_step': 2})['id']}")
    fork.step()
    assert listed(fork) == [1]
    note(fork, 3)
    assert listed(fork) == [1, 3]


@pytest.mark.parametrize(("order", "numbers"), [("oldest", [1, 2, 3]), ("newest", [3, 2, 1])])
def test_a_search_of_too_many_notes_continues_with_the_next_request(
    three: Agent, monkeypatch: pytest.MonkeyPatch, order: str, numbers: list[int]
) -> None:
    monkeypatch.setattr("historyapp.models.step_texts.MAX_NOTES", 1)
    for number in numbers:
        note(three, number)
    found, cursor = list[list[int]](), ""
    while cursor is not None:
        page = three.get(f"/episodes?noted=true&order={order}{cursor and f'&cursor={cursor}'}")
        found.append([item["number"] for item in page["items"]])
        cursor = page["next"]
    assert found == [[number] for number in numbers]


def test_the_length_and_the_number_of_notes_are_limited(
    three: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert three.put("/episodes/1/note", {"text": "x" * 10_001}).status == 422
    monkeypatch.setattr(notes, "MAX_NOTES", 1)
    note(three, 1)
    assert_problem(three.put("/episodes/2/note", {}), 409, "at most 1 notes")
    note(three, 1, "changed")
    assert StepNote.objects.count() == 1


def test_a_note_changes_nothing_in_the_log(three: Agent) -> None:
    before = three.get("/entries").body, three.get("/episodes").body
    note(three, 2, "x")
    assert (three.get("/entries").body, three.get("/episodes").body) == before


def test_a_page_reads_only_the_texts_of_its_notes(three: Agent) -> None:
    """A fork of many forks has thousands of long notes."""
    for number in (1, 2, 3):
        note(three, number, f"note {number}")
    with CaptureQueriesContext(connection) as captured:
        assert noted(three, "?limit=2") == [(1, "note 1"), (2, "note 2")]
        assert len(three.get("/episodes?noted=true")["items"]) == 3
    queries = [query["sql"] for query in captured if "historyapp_stepnote" in query["sql"]]
    # The notes of both requests, and between them the texts of the two on the page.
    assert ['"historyapp_stepnote"."text"' in sql for sql in queries] == [False, True, False]
