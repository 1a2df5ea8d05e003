"""Two runs compared over HTTP."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.services import step_pairs
from tests.api.agent import Agent, Received, ask
from tests.api.test_query_counts import with_steps

UNKNOWN = "0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d"


def new_run(alice: Agent, title: str = "a run") -> tuple[Agent, str]:
    id = alice.post("/sessions", {"title": title})["id"]
    return alice.within(f"/sessions/{id}"), id


def record_step(run: Agent, name: str, outputs: Any = "fine", **arguments: Any) -> None:
    assert run.act(name, **arguments).status == 201
    assert run.succeed(outputs).status == 201


def compared(alice: Agent, a: object, b: object, more: str = "") -> Received:
    comparison = alice.get(f"/compare?a={a}&b={b}{more}")
    assert comparison.status == 200, comparison.body
    return comparison


def kinds(response: Any) -> list[tuple[int | None, int | None, str, list[str]]]:
    return [
        (*[side and side["number"] for side in (pair["a"], pair["b"])], pair["change"], pair["differs"])
        for pair in response["items"]
    ]


@pytest.fixture
def fork(run: Agent, alice: Agent) -> tuple[Agent, str]:
    """A fork of a run of four steps after the second one."""
    for number in range(1, 5):
        record_step(run, "read", path=f"{number}.txt")
    id = run.post("/forks", {"at_step": 2})["id"]
    return alice.within(f"/sessions/{id}"), id


def test_a_fork_and_its_parent_share_their_beginning_exactly(
    alice: Agent, session_id: str, fork: tuple[Agent, str]
) -> None:
    record_step(fork[0], "read", path="3.txt")
    record_step(fork[0], "write", path="4.txt")
    comparison = compared(alice, session_id, fork[1])
    assert comparison["common"] == {"position": 4, "steps": 2}
    assert kinds(comparison["pairs"]) == [
        (3, 3, "same", []),
        (4, None, "only_a", []),
        (None, 4, "only_b", []),
    ]
    assert comparison["first_difference"] == comparison["first_divergence"] == {"a": 4, "b": 4}
    assert comparison["a"]["totals"]["steps"] == comparison["b"]["totals"]["steps"] == 4
    assert comparison["a"]["apart"]["steps"] == comparison["b"]["apart"]["steps"] == 2
    assert comparison["counts"] == {
        "same": 1, "different_call": 0, "different_result": 0, "only_a": 1, "only_b": 1, "complete": True,
    }  # fmt: skip


def test_a_fork_without_own_steps_only_lacks_steps(
    alice: Agent, session_id: str, fork: tuple[Agent, str]
) -> None:
    assert kinds(compared(alice, fork[1], session_id)["pairs"]) == [
        (None, 3, "only_b", []),
        (None, 4, "only_b", []),
    ]


def test_differences_of_a_pair_are_listed(alice: Agent) -> None:
    (one, a), (two, b) = new_run(alice), new_run(alice)
    for run, text in ((one, "go"), (two, "go on")):
        run.append(ask(text))
        record_step(run, "ls")
    record_step(one, "shell", "1 failed", command="pytest")
    record_step(two, "shell", "2 passed", command="pytest")
    record_step(one, "shell", command="make")
    record_step(two, "shell", command="make lint")
    one.act("rm", path="x")
    two.act("rm", path="x")
    one.succeed()
    two.fail()
    for run, text in ((one, "Done."), (two, "Not done.")):
        run.append({"kind": "model_output", "text": text})
    comparison = compared(alice, a, b)
    assert comparison["common"] == {"position": 0, "steps": 0}
    assert kinds(comparison["pairs"]) == [
        (1, 1, "different", ["input"]),
        (2, 2, "different", ["result"]),
        (3, 3, "different", ["call"]),
        (4, 4, "different", ["result", "status"]),
        (5, 5, "different", ["answer"]),
    ]
    assert comparison["first_difference"] == {"a": 1, "b": 1}
    assert comparison["first_divergence"] == {"a": 3, "b": 3}


def test_differences_beyond_the_previews_are_found(alice: Agent) -> None:
    (one, a), (two, b) = new_run(alice), new_run(alice)
    for run, end in ((one, "x"), (two, "y")):
        record_step(run, "write", text="long " * 100)
        record_step(run, "write", text="long " * 100 + end)
        record_step(run, "read", "line\n" * 100 + end)
    comparison = compared(alice, a, b)
    assert kinds(comparison["pairs"]) == [
        (1, 1, "same", []),
        (2, 2, "different", ["call"]),
        (3, 3, "different", ["result"]),
    ]
    assert comparison["first_difference"] == {"a": 2, "b": 2}
    assert all(pair["exact"] for pair in comparison["pairs"]["items"])
    counts = comparison["counts"]
    assert [counts[name] for name in ("same", "different_call", "different_result")] == [1, 1, 1]


def test_large_steps_are_compared_by_their_previews(alice: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    (one, a), (two, b) = new_run(alice), new_run(alice)
    for run, end in ((one, "x"), (two, "y")):
        record_step(run, "ls")
        record_step(run, "read", "line\n" * 1000 + end)
    monkeypatch.setattr(step_pairs, "MAX_COMPARED_TOKENS", 500)
    assert [pair["exact"] for pair in compared(alice, a, b)["pairs"]["items"]] == [True, False]


def test_call_ids_and_the_order_of_results_do_not_count_as_differences(alice: Agent) -> None:
    (one, a), (two, b) = new_run(alice), new_run(alice)
    for run, ids in ((one, ("p", "q")), (two, ("r", "s"))):
        calls = [{"id": id, "name": "read", "arguments": {"path": n}} for n, id in enumerate(ids)]
        results = [
            {"tool_call_id": id, "status": "success", "outputs": f"text {n}"} for n, id in enumerate(ids)
        ]
        ordered = results if run is one else results[::-1]
        run.append({"kind": "model_output", "tool_calls": calls})
        run.append(*({"kind": "tool_results", "results": [result]} for result in ordered))
    (pair,) = compared(alice, a, b)["pairs"]["items"]
    assert (pair["change"], pair["exact"]) == ("same", True)


def test_a_take_is_compared_with_the_later_steps(alice: Agent, run: Agent, session_id: str) -> None:
    for name in ("a", "b", "c"):
        record_step(run, "read", path=name)
    position = run.post("/rewinds", {"to_step": 1})["position"]
    record_step(run, "write", path="b")
    comparison = compared(alice, f"{session_id}/takes/{position}", session_id)
    assert comparison["common"]["steps"] == 1
    assert comparison["a"]["as_of"] == position - 1
    assert comparison["first_divergence"] == {"a": 2, "b": 2}
    assert comparison["a"]["apart"]["steps"] == 2


def test_a_session_is_compared_with_itself_as_it_was(alice: Agent, run: Agent, session_id: str) -> None:
    run.append(ask())
    record_step(run, "a")
    record_step(run, "b")
    comparison = compared(alice, f"{session_id}@3", session_id)
    assert comparison["common"] == {"position": 3, "steps": 1}
    assert kinds(comparison["pairs"]) == [(None, 2, "only_b", [])]


def test_a_step_that_was_cut_in_the_middle_is_not_shared(alice: Agent, run: Agent, session_id: str) -> None:
    record_step(run, "a")
    comparison = compared(alice, f"{session_id}@1", session_id)
    assert comparison["common"] == {"position": 1, "steps": 0}
    assert kinds(comparison["pairs"]) == [(1, 1, "different", ["result", "status"])]


def test_pages_show_every_step_once(alice: Agent) -> None:
    (one, a), (two, b) = new_run(alice), new_run(alice)
    for number in range(12):
        record_step(one, "read", path=f"{number}")
        if number % 3:
            record_step(two, "read", path=f"{number}")
        if number == 7:
            record_step(two, "write")
    whole = kinds(compared(alice, a, b, "&limit=500")["pairs"])
    assert len(whole) == 13
    url = f"/compare/pairs?a={a}&b={b}&limit=5"
    paged, page = [], alice.get(url)
    while True:
        paged += kinds(page)
        if page["next"] is None:
            break
        two.act("new")  # pages show the runs as they were
        two.succeed()
        page = alice.get(f"{url}&cursor={page['next']}")
    assert paged == whole


def test_a_cursor_of_another_comparison_is_refused(alice: Agent, run: Agent, session_id: str) -> None:
    for _ in range(3):
        record_step(run, "a")
    _, other = new_run(alice)
    cursor = compared(alice, session_id, other, "&limit=1")["pairs"]["next"]
    assert alice.get(f"/compare/pairs?a={other}&b={session_id}&cursor={cursor}").status == 422


@pytest.mark.parametrize(
    ("a", "b", "status", "words"),
    [
        ("SESSION", "SESSION", 422, "the same run"),
        ("SESSION", "SESSION@2", 422, "the same run"),
        ("", "SESSION", 422, "a is missing"),
        ("nonsense", "SESSION", 422, "Use the id of a session"),
        ("SESSION", "SESSION@99", 422, "head is 2"),
        ("SESSION", "SESSION/takes/1", 404, "no take at position 1"),
        ("SESSION", UNKNOWN, 404, f"no session {UNKNOWN}"),
    ],
)
def test_the_error_of_an_impossible_comparison_gives_the_reason(
    alice: Agent, run: Agent, session_id: str, a: str, b: str, status: int, words: str
) -> None:
    record_step(run, "a")
    names = [text.replace("SESSION", session_id) for text in (a, b)]
    response = alice.get(f"/compare?a={names[0]}&b={names[1]}")
    assert response.status == status
    assert words in response["detail"]


def test_a_restored_take_cannot_be_compared(alice: Agent, run: Agent, session_id: str) -> None:
    record_step(run, "a")
    record_step(run, "b")
    position = run.post("/rewinds", {"to_step": 1})["position"]
    assert run.post(f"/rewinds/{position}/undo").status == 201
    response = alice.get(f"/compare?a={session_id}&b={session_id}/takes/{position}")
    assert response.status == 404
    assert f"Compare {session_id}@{position - 1} instead" in response["detail"]


def test_a_stranger_cannot_compare_runs(alice: Agent, charlie: Agent, session_id: str) -> None:
    _, own = new_run(charlie)
    for path in ("/compare", "/compare/pairs"):
        foreign = charlie.get(f"{path}?a={own}&b={session_id}")
        missing = charlie.get(f"{path}?a={own}&b={UNKNOWN}")
        assert foreign.status == missing.status == 404
        assert foreign["detail"].replace(session_id, "ID") == missing["detail"].replace(UNKNOWN, "ID")


def test_long_forks_take_as_many_queries_as_short_ones(alice: Agent) -> None:
    costs = []
    for steps in (300, 900):
        run = with_steps(alice, steps)
        fork = run.post("/forks", {"at_step": steps - 20})["id"]
        alice.within(f"/sessions/{fork}").step()
        with CaptureQueriesContext(connection) as queries:
            comparison = compared(alice, run.get()["id"], fork)
        assert comparison["common"]["steps"] == steps - 20
        costs.append(len(queries))
    assert costs[0] == costs[1] <= 33
