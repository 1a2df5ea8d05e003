"""The entries in which the names of a step occurred first, over HTTP."""

from typing import Any
from uuid import UUID

import pytest

from historyapp import enqueue, indexers, tasks
from historyapp.models import NameIndex, Session
from historyapp.services.names import index as name_index
from tests.api.agent import Agent, ask


def reading(path: str) -> dict[str, Any]:
    return {"kind": "model_output", "use_tool": {"name": "read_file", "arguments": {"path": path}}}


def returned(outputs: str) -> dict[str, Any]:
    return {"kind": "tool_results", "results": [{"status": "success", "outputs": outputs}]}


@pytest.fixture
def searched(run: Agent) -> Agent:
    run.append(ask(), reading("src"), returned("src/a.py\nsrc/b.py"), reading("src/b.py"), returned("ok"))
    return run


def test_a_name_has_its_first_place(searched: Agent) -> None:
    origins = searched.get("/episodes/-1/origins").body
    (name,) = origins["names"]
    place = {"position": 3, "step": 1, "role": "result", "line": 2, "text": "src/b.py"}
    assert (name["name"], name["origin"], name["match"], name["first"]) == (
        "src/b.py",
        "given",
        "whole",
        place,
    )
    assert (origins["complete"], origins["result_used"]) == (True, None)


def test_a_result_lists_the_steps_that_used_it(searched: Agent) -> None:
    origins = searched.get("/episodes/1/origins").body
    assert origins["used"] == [
        {"result": 0, "line": 2, "text": "src/b.py", "names": [{"name": "src/b.py", "step": 2}]}
    ]
    assert origins["result_used"] is True
    before = searched.get("/episodes/1/origins?as_of=3").body
    assert (before["used"], before["result_used"]) == ([], False)


def test_a_long_session_is_reported_as_not_indexed_yet(
    searched: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_index.catch_up, "__kwdefaults__", {"limit": 4})
    index_requests: list[UUID] = []
    monkeypatch.setattr(enqueue, "request_name_index", index_requests.append)
    origins = searched.get("/episodes/2/origins").body
    assert (origins["complete"], origins["names"][0]["origin"]) == (False, "unknown")
    assert not NameIndex.objects.exists()
    monkeypatch.setattr(indexers.INDEXERS, "start", lambda: True)
    tasks.index_names(str(index_requests[0]))
    indexers.work_on_indexes()
    assert searched.get("/episodes/2/origins")["complete"] is True


def test_an_unchanged_session_gives_304(searched: Agent) -> None:
    first = searched.get("/episodes/2/origins")
    again = searched.get("/episodes/2/origins", headers={"If-None-Match": first.headers["ETag"]})
    assert again.status == 304


def test_a_response_changes_when_the_rules_of_names_have_changed(
    searched: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = searched.get("/episodes/2/origins")
    monkeypatch.setattr(enqueue, "NAMES_VERSION", 99)
    again = searched.get("/episodes/2/origins", headers={"If-None-Match": first.headers["ETag"]})
    assert again.status == 200


@pytest.mark.parametrize("path", ["/episodes/2/origins", "/episodes?names=unseen"])
def test_a_response_changes_when_more_of_the_log_is_in_the_index(
    searched: Agent, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(name_index.catch_up, "__kwdefaults__", {"limit": 0})
    monkeypatch.setattr(name_index, "CHUNK_ENTRIES", 2)
    monkeypatch.setattr(name_index, "STORED_SECONDS", 0)
    monkeypatch.setattr(enqueue, "request_name_index", lambda _: None)
    tags = [searched.get(path).headers["ETag"]]
    for _ in range(3):
        again = searched.get(path, headers={"If-None-Match": tags[-1]})
        assert again.status == 304, "nothing was added"
        name_index.add_chunk(Session.objects.get())
        tags.append(searched.get(path, headers={"If-None-Match": tags[-1]}).headers["ETag"])
    assert len(set(tags)) == 4, "the last one is of the whole index"


def test_a_missing_step_is_a_404(searched: Agent) -> None:
    assert searched.get("/episodes/9/origins").status == 404


def test_steps_are_filtered_by_names_and_counted_in_the_overview(searched: Agent) -> None:
    before = searched.get("/overview")["names"]
    assert before == {"indexed": False, "unseen": 0, "unseen_steps": [], "gone": 0, "gone_steps": []}
    searched.append(reading("src/guess.py"), returned("none"))
    steps = searched.get("/episodes?names=unseen").body["items"]
    assert [step["number"] for step in steps] == [1, 3]
    assert searched.get("/episodes?names=gone").body["items"] == []
    after = searched.get("/overview")["names"]
    assert after == {"indexed": True, "unseen": 2, "unseen_steps": [1, 3], "gone": 0, "gone_steps": []}
    assert len(searched.get("/episodes?names=unseen&as_of=5").body["items"]) == 1


def test_every_place_of_a_name_is_listed_on_request(searched: Agent) -> None:
    assert searched.get("/episodes/2/origins")["places"] is None
    places = searched.get("/episodes/2/origins?name=src/b.py")["places"]
    assert [(one["position"], one["step"], one["role"]) for one in places] == [
        (3, 1, "result"),
        (4, 2, "action"),
    ]
    assert searched.get("/episodes/2/origins?name=nothing_1")["places"] == []
    assert searched.get("/episodes/2/origins?name=").status == 422
