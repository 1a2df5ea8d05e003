"""A session's metadata is small, so that a session can be written and listed fast."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.session_metadata import MAX_METADATA
from historyapp.models import Session
from tests.api.agent import Agent
from tests.api.test_problems import assert_problem

LARGEST: dict[str, Any] = {"a": "x" * (MAX_METADATA - len('{"a":""}'))}
TOO_LARGE = {"a": LARGEST["a"] + "x"}
ERROR = (
    "body.metadata has more than 65,536 characters as JSON. Send less, and append larger facts as entries."
)
LISTS = [
    "/sessions",
    "/facets",
    "/search?q=needle",
    "/search?q=needle+AND+hay",
    "/events",
    "/figures?by=agent",
]


def test_metadata_of_the_largest_size_is_stored(alice: Agent) -> None:
    made = alice.post("/sessions", {"metadata": LARGEST})
    assert (made.status, made["metadata"]) == (201, LARGEST)
    changed = alice.patch(f"/sessions/{made['id']}", {"metadata": {**LARGEST, "a": "y"}})
    assert changed["metadata"] == {"a": "y"}


def test_larger_metadata_is_refused_with_its_size(alice: Agent, session_id: str) -> None:
    for refused in (
        alice.post("/sessions", {"metadata": TOO_LARGE}),
        alice.patch(f"/sessions/{session_id}", {"metadata": TOO_LARGE, "title": "other"}),
    ):
        assert_problem(refused, 422)
        assert refused["detail"] == ERROR
        assert refused["errors"][0]["loc"] == ["body", "metadata"]
    assert [item["title"] for item in alice.get("/sessions")["items"]] == ["a run"]


def test_characters_beyond_ascii_count_as_they_are_stored(alice: Agent) -> None:
    assert alice.post("/sessions", {"metadata": {"a": "é" * 10_000}}).status == 201
    assert_problem(alice.post("/sessions", {"metadata": {"a": "é" * 11_000}}), 422, "more than 65,536")


def test_larger_metadata_of_an_earlier_version_stays(alice: Agent, session_id: str) -> None:
    address, stored = f"/sessions/{session_id}", {"cwd": "/srv/" + "a" * 3_000, "log": "x" * 200_000}
    Session.objects.filter(pk=session_id).update(metadata=stored)
    assert alice.get(address)["metadata"] == stored
    assert alice.patch(address, {"title": "renamed"})["metadata"] == stored
    assert alice.get(address)["metadata"] == stored
    forked = alice.post(f"{address}/forks")
    assert forked["metadata"] == {"cwd": stored["cwd"][:2_000]}


def test_a_change_of_other_fields_does_not_write_the_metadata(alice: Agent, session_id: str) -> None:
    with CaptureQueriesContext(connection) as queries:
        alice.patch(f"/sessions/{session_id}", {"title": "renamed", "add_tags": ["a"]})
    updates = [query["sql"] for query in queries if query["sql"].startswith('UPDATE "historyapp_session"')]
    assert updates
    assert not [update for update in updates if "metadata" in update]
    changed = alice.patch(f"/sessions/{session_id}", {"metadata": {"cwd": "/work"}})
    assert changed["folder"] == "/work"
    assert (changed["title"], changed["tags"]) == ("renamed", ["a"])


@pytest.mark.parametrize("path", LISTS)
def test_lists_do_not_load_the_metadata(alice: Agent, run: Agent, path: str) -> None:
    run.append({"kind": "model_output", "text": "a needle in the hay"})
    run.post("/forks")
    with CaptureQueriesContext(connection) as queries:
        assert alice.get(path).status == 200
    assert not [query["sql"] for query in queries if '"metadata"' in query["sql"]]
