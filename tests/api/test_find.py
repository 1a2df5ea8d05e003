"""``GET /sessions/{id}/find``."""

from typing import Any

import pytest

from historyapp.models import TextBlock, text_search
from historyapp.services.text_index import index_text
from tests.api.agent import Agent, ask


@pytest.fixture
def index_requests(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    sessions: list[Any] = []
    monkeypatch.setattr("historyapp.api.find.request_text_index", sessions.extend)
    return sessions


@pytest.fixture
def searched_run(run: Agent) -> Agent:
    output = {"kind": "model_output", "use_tool": {"name": "grep", "arguments": {"pattern": "EnsureSetup"}}}
    result = {
        "kind": "tool_results",
        "results": [{"status": "success", "outputs": "hooks_test.go: ensureSetup()"}],
    }
    run.append(ask("Why does EnsureSetup fail?"), output, result, output, result)
    return run


def test_entries_are_named_with_the_text_around_the_match(searched_run: Agent) -> None:
    response = searched_run.get("/find?q=ensuresetup(")
    assert response.status == 200
    assert response["items"][0] == {
        "episode": 1, "position": 3, "field": "result", "before": "hooks_test.go: ", "match": "ensureSetup(",
        "after": ")", "times": 1, "live": True,
    }  # fmt: skip
    assert (response["count"], response["complete"], response["next"]) == (2, True, None)
    fields = [
        (item["position"], item["field"], item["episode"])
        for item in searched_run.get("/find?q=setup")["items"]
    ]
    assert fields == [(1, "input", 1), (2, "call", 1), (3, "result", 1), (4, "call", 2), (5, "result", 2)]


def test_pages_follow_each_other(searched_run: Agent) -> None:
    first = searched_run.get("/find?q=setup&limit=2")
    assert [item["position"] for item in first["items"]] == [1, 2]
    assert (first["count"], first["complete"]) == (5, True)
    second = searched_run.get(f"/find?q=setup&limit=2&cursor={first['next']}")
    assert [item["position"] for item in second["items"]] == [3, 4]
    assert second["count"] == 3
    assert searched_run.get(f"/find?q=other&cursor={first['next']}").status == 422
    assert searched_run.get(f"/find?q=setup&take=all&cursor={first['next']}").status == 422
    assert searched_run.get("/find?q=setup&cursor=nonsense").status == 422


def test_takes_are_searched_only_on_request(searched_run: Agent) -> None:
    searched_run.post("/rewinds", {"to_step": 1})
    assert [item["position"] for item in searched_run.get("/find?q=grep")["items"]] == [2]
    both = searched_run.get("/find?q=grep&take=all")["items"]
    assert [(item["position"], item["live"]) for item in both] == [(2, True), (4, False)]
    assert [item["position"] for item in searched_run.get("/find?q=grep&as_of=5")["items"]] == [2, 4]


@pytest.mark.parametrize(
    "query", ["", "q=", "q=%20", f"q={'x' * 201}", "q=%00", "q=a&take=some", "q=a&limit=0"]
)
def test_an_invalid_search_text_is_refused(searched_run: Agent, query: str) -> None:
    assert searched_run.get(f"/find?{query}").status == 422


def test_strangers_get_404(searched_run: Agent, charlie: Agent, session_id: str) -> None:
    assert charlie.get(f"/sessions/{session_id}/find?q=setup").status == 404


def test_a_long_session_is_searched_in_parts_and_its_index_is_requested(
    run: Agent, session_id: str, index_requests: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_search, "MAX_ENTRIES", 520)
    for start in range(0, 600, 200):
        run.append(*[ask(f"message {number}") for number in range(start, start + 200)])
    response = run.get("/find?q=message 599")
    assert (response["items"], response["complete"]) == ([], False)
    assert [str(session) for session in index_requests] == [session_id]
    rest = run.get(f"/find?q=message 599&cursor={response['next']}")
    assert [item["position"] for item in rest["items"]] == [600]
    assert index_text(index_requests[0]) == TextBlock.objects.count() == 1
    assert run.get("/find?q=message 599")["complete"] is True
