"""Forks: a new session that begins with the history of another session."""

from typing import Any

import pytest

from historyapp.models import Entry
from tests.api.agent import Agent, ask
from tests.api.test_problems import assert_problem

GIVEN = "0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d"


@pytest.fixture
def three(run: Agent) -> Agent:
    for number in range(1, 4):
        run.step("ls", number)
    return run


def answers(*times: str) -> dict[str, Any]:
    return {"entries": [{"kind": "model_output", "text": "done", "created_at": time} for time in times]}


def test_the_duration_of_a_fork_is_without_the_time_until_it_began(alice: Agent, run: Agent) -> None:
    run.post("/entries", answers("2026-01-01T12:00:00Z", "2026-01-01T12:01:00Z"))
    fork = alice.within(f"/sessions/{run.post('/forks')['id']}")
    assert fork.get()["duration"] == 60
    fork.post("/entries", answers("2026-03-01T12:00:00Z", "2026-03-01T12:00:30Z"))
    assert fork.get()["duration"] == 90
    assert sorted(one["duration"] for one in alice.get("/sessions")["items"]) == [30, 60]


def test_a_duration_without_a_pause_is_of_whole_milliseconds(alice: Agent, run: Agent) -> None:
    run.post("/entries", answers("2026-01-01T12:00:00Z", "2026-01-01T12:00:08Z"))
    fork = alice.within(f"/sessions/{run.post('/forks')['id']}")
    fork.post("/entries", answers("2026-01-01T12:00:08.300Z", "2026-01-01T12:00:10.100Z"))
    assert fork.get()["duration"] == 9.8


@pytest.mark.parametrize(
    ("point", "head", "steps"),
    [
        ({}, 6, 3),
        ({"at_step": 2}, 4, 2),
        ({"at_step": -3}, 2, 1),
        ({"at_step": 0}, 0, 0),
        ({"at_position": 3}, 3, 2),
        ({"at_position": 0}, 0, 0),
    ],
)
def test_a_fork_shares_history_up_to_its_point(
    alice: Agent, three: Agent, session_id: str, point: dict[str, Any], head: int, steps: int
) -> None:
    made = three.post("/forks", point)
    assert made.status == 201
    assert (made["head"], made["steps"], made["fork_position"]) == (head, steps, head)
    assert (made["forked_from"], made["title"]) == (session_id, "a run (fork)")
    fork = alice.within(f"/sessions/{made['id']}")
    assert fork.get().body == made.body
    assert fork.get("/entries")["items"] == three.get(f"/entries?before={head + 1}")["items"]
    assert Entry.objects.count() == 6


def test_without_a_body_everything_is_shared(three: Agent) -> None:
    assert three.send("POST", "/forks")["head"] == 6


def test_a_fork_and_its_parent_are_independent(alice: Agent, three: Agent) -> None:
    fork = alice.within(f"/sessions/{three.post('/forks', {'at_step': 1})['id']}")
    assert fork.append(ask("mine")) == [3]
    three.append(ask("theirs"))
    assert [item["position"] for item in fork.get("/entries")["items"]] == [1, 2, 3]
    assert fork.get("/entries/3")["content"] == "mine"
    assert fork.get("/entries/2")["kind"] == "tool_results"
    assert_problem(fork.get("/entries/7"), 404)
    assert three.get("/entries/7")["content"] == "theirs"


def test_a_step_in_flight_continues_in_parent_and_fork(alice: Agent, three: Agent) -> None:
    three.act("sleep")
    fork = alice.within(f"/sessions/{three.post('/forks')['id']}")
    assert three.succeed("here").status == 201
    assert fork.fail("there").status == 201
    assert [session.get("/episodes/4")["status"] for session in (three, fork)] == ["success", "error"]


def test_a_fork_of_a_fork_shares_both(alice: Agent, three: Agent) -> None:
    child = alice.within(f"/sessions/{three.post('/forks', {'at_step': 2})['id']}")
    child.step("child")
    grandchild = alice.within(f"/sessions/{child.post('/forks')['id']}")
    grandchild.step("grandchild")
    assert [item["tool_names"][0] for item in grandchild.get("/episodes")["items"]] == [
        "ls", "ls", "child", "grandchild",
    ]  # fmt: skip


def test_a_fork_can_be_named(alice: Agent, three: Agent) -> None:
    made = three.post("/forks", {"title": "the other way", "id": GIVEN})
    assert (made["title"], made["id"]) == ("the other way", GIVEN)
    assert_problem(three.post("/forks", {"id": GIVEN}), 409, "taken")


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ({"at_step": 4}, "There is no step 4"),
        ({"at_position": 7}, "at_position is 7, but positions go from 0 to the head, 6"),
        ({"at_step": 1, "at_position": 1}, "not both"),
        ({"at_step": "1"}, "body.at_step"),
        ({"title": "\x00"}, "body.title"),
        ({"at": 1}, "body.at is not a field"),
    ],
)
def test_an_invalid_fork_point_is_refused(
    alice: Agent, three: Agent, point: dict[str, Any], words: str
) -> None:
    assert_problem(three.post("/forks", point), 422, words)
    assert len(alice.get("/sessions")["items"]) == 1


def test_an_archived_session_can_be_forked(three: Agent) -> None:
    three.delete()
    assert three.post("/forks")["status"] == "live"
