"""A saved search has a name and belongs to one project."""

import pytest

from historyapp.models import SavedSearch
from historyapp.models.saved_searches import MAX_SAVED
from tests.api.agent import Agent

SAVED = {"name": "Failed tests", "query": "command:pytest status:failed"}


def test_a_search_is_saved_renamed_and_deleted(alice: Agent) -> None:
    made = alice.post("/searches", SAVED)
    assert made.status == 201
    assert (made["name"], made["query"]) == (SAVED["name"], SAVED["query"])
    assert made["actor"].startswith("key:")
    renamed = alice.patch(f"/searches/{made['id']}", {"name": "  Broken   tests "})
    assert renamed["name"] == "Broken tests"
    assert [one["name"] for one in alice.get("/searches")["items"]] == ["Broken tests"]
    assert alice.send("DELETE", f"/searches/{made['id']}", b"").status == 204
    assert alice.get("/searches")["items"] == []
    assert alice.send("DELETE", f"/searches/{made['id']}", b"").status == 404


def test_a_stranger_cannot_see_or_change_a_saved_search(alice: Agent, charlie: Agent) -> None:
    made = alice.post("/searches", SAVED)["id"]
    assert charlie.get("/searches")["items"] == []
    assert charlie.patch(f"/searches/{made}", {"name": "mine"}).status == 404
    assert charlie.send("DELETE", f"/searches/{made}", b"").status == 404
    assert charlie.post("/searches", SAVED).status == 201
    assert [one["name"] for one in alice.get("/searches")["items"]] == ["Failed tests"]


def test_names_are_unique(alice: Agent) -> None:
    alice.post("/searches", SAVED)
    refused = alice.post("/searches", {**SAVED, "query": "other"})
    assert refused.status == 409
    assert "Choose another name" in refused["detail"]
    other = alice.post("/searches", {"name": "Other", "query": "other"})["id"]
    assert alice.patch(f"/searches/{other}", {"name": "Failed tests"}).status == 409
    assert alice.patch(f"/searches/{other}", {"name": "Other"}).status == 200


@pytest.mark.parametrize(
    "changed",
    [{"name": ""}, {"name": " "}, {"name": "x" * 101}, {"query": ""}, {"query": " "}, {"query": '"open'},
     {"query": "x" * 501}, {"query": "status:nonsense"}],
)  # fmt: skip
def test_an_invalid_search_is_refused(alice: Agent, changed: dict[str, str]) -> None:
    refused = alice.post("/searches", {**SAVED, **changed})
    assert refused.status == 422
    assert refused["detail"]
    assert SavedSearch.objects.count() == 0


def test_the_number_of_saved_searches_is_limited(alice: Agent) -> None:
    for number in range(MAX_SAVED):
        assert alice.post("/searches", {**SAVED, "name": str(number)}).status == 201
    refused = alice.post("/searches", SAVED)
    assert refused.status == 409
    assert "Delete one first" in refused["detail"]
