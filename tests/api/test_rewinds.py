"""Rewinds: history ends earlier, what is cut off stays readable, and any rewind can be undone."""

from typing import Any

import pytest

from historyapp.models import AuditRecord
from tests.api.agent import Agent, ask
from tests.api.conftest import Owner
from tests.api.test_problems import assert_problem


@pytest.fixture(scope="module")
def recorded(owner: Owner) -> Agent:
    """Three finished steps at positions 1 to 6."""
    run = owner.begin_run()
    for number in range(1, 4):
        run.step("ls", number)
    return run


@pytest.fixture
def three(recorded: Agent, db: None) -> Agent:
    return recorded


def positions(run: Agent) -> list[int]:
    return [item["position"] for item in run.get("/entries?limit=500")["items"]]


@pytest.mark.parametrize(
    ("target", "to_position", "steps_cut"),
    [
        ({}, 6, 0),
        ({"episodes": 0}, 6, 0),
        ({"episodes": -5}, 6, 0),
        ({"episodes": 1}, 4, 1),
        ({"episodes": 9}, 0, 3),
        ({"to_step": 1}, 2, 2),
        ({"to_step": -2}, 4, 1),
        ({"to_step": 0}, 0, 3),
        ({"to_position": 5}, 5, 0),
        ({"to_position": 0}, 0, 3),
    ],
)
def test_a_rewind_goes_back_to_its_target(
    three: Agent, session_id: str, target: dict[str, Any], to_position: int, steps_cut: int
) -> None:
    done = three.post("/rewinds", target)
    cut = {"session": session_id, "first_position": to_position + 1, "last_position": 6}
    assert (done.status, done.body) == (
        201,
        {
            "position": 7,
            "to_position": to_position,
            "cut_off": [cut] if to_position < 6 else [],
            "steps_cut": steps_cut,
            "head": 7,
        },
    )
    assert positions(three) == list(range(1, to_position + 1))


def test_without_a_body_only_the_step_in_flight_is_cut_off(three: Agent) -> None:
    three.act()
    done = three.send("POST", "/rewinds")
    assert (done.status, done["to_position"], done["steps_cut"]) == (201, 6, 1)
    assert three.get()["steps"] == 3


def test_a_number_of_steps_does_not_include_the_step_in_flight(three: Agent) -> None:
    three.act()
    assert three.post("/rewinds", {"episodes": 1})["to_position"] == 4


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"to_step": 4}, "There is no step 4"),
        ({"to_position": 7}, "the head, 6"),
        ({"to_position": -1}, "body.to_position"),
        ({"episodes": 1, "to_step": 1}, "not episodes and to_step"),
        ({"to_step": "1"}, "body.to_step"),
        ({"to_step": 1.5}, "body.to_step"),
        ({"to": 1}, "body.to is not a field"),
    ],
)
def test_an_invalid_target_is_refused(three: Agent, target: dict[str, Any], words: str) -> None:
    assert_problem(three.post("/rewinds", target), 422, words)
    assert three.get()["head"] == 6


def test_the_expected_position_must_be_the_head(three: Agent) -> None:
    assert_problem(three.post("/rewinds", {"expected_position": 5}), 409, "head is 6")
    assert three.post("/rewinds", {"expected_position": 6}).status == 201


def test_a_rewind_can_continue_from_a_take(three: Agent) -> None:
    three.post("/rewinds", {"to_step": 1})
    three.append(ask("another way"))
    done = three.post("/rewinds", {"to_position": 4})
    assert positions(three) == [1, 2, 3, 4]
    assert [(cut["first_position"], cut["last_position"]) for cut in done["cut_off"]] == [(8, 8)]


def test_undoing_restores_live_entries(three: Agent) -> None:
    before = three.get("/entries")["items"]
    done = three.post("/rewinds", {"to_step": 1, "reason": "wrong way"})
    three.append(ask("another way"))
    undone = three.post(f"/rewinds/{done['position']}/undo")
    assert (undone.status, undone["to_position"]) == (201, 6)
    assert three.get("/entries")["items"] == before
    assert_problem(three.post(f"/rewinds/{done['position']}/undo"), 409, "already undone")
    again = three.post(f"/rewinds/{undone['position']}/undo")
    assert again.status == 201
    assert positions(three) == [1, 2, 8]


@pytest.mark.parametrize(("position", "status"), [("3", 404), ("99", 404), ("x", 422), ("0", 422)])
def test_only_a_rewind_can_be_undone(three: Agent, position: str, status: int) -> None:
    assert_problem(three.post(f"/rewinds/{position}/undo"), status)


def test_rewinds_are_listed_with_their_cut_steps(three: Agent, session_id: str) -> None:
    three.post("/rewinds", {"to_step": 1, "reason": "\ud800 wrong"})
    three.append(ask("another way"))
    three.post("/rewinds", {"to_position": 0})
    newest, oldest = three.get("/rewinds")["items"]
    assert (newest["position"], oldest["position"]) == (9, 7)
    assert (oldest["reason"], newest["reason"], oldest["to_position"]) == ("\ud800 wrong", None, 2)
    assert oldest["cut_off"] == [{"session": session_id, "first_position": 3, "last_position": 6}]
    assert [(cut["first_position"], cut["last_position"]) for cut in newest["cut_off"]] == [(1, 2), (8, 8)]
    assert oldest["actor"].startswith("key:ph_")
    assert [item["position"] for item in three.get("/rewinds?as_of=8")["items"]] == [7]
    assert three.get("/entries?as_of=6")["items"][-1]["position"] == 6


def test_a_rewind_is_audited(three: Agent) -> None:
    three.post("/rewinds", {"to_step": 1, "reason": "wrong way"})
    record = AuditRecord.objects.get(action="rewind")
    assert record.actor.startswith("key:ph_")
    assert record.detail == {"position": 7, "to_position": 2, "reason": "wrong way"}


def test_an_archived_session_is_not_rewound(three: Agent) -> None:
    three.delete()
    assert_problem(three.post("/rewinds"), 409, "archived")


def test_the_reason_of_a_rewind_has_a_limit(three: Agent) -> None:
    assert three.post("/rewinds", {"episodes": 1, "reason": "\ud800" * 2_000}).status == 201
    refused = three.post("/rewinds", {"episodes": 1, "reason": "x" * 2_001})
    assert_problem(refused, 422)
    assert refused["detail"] == "body.reason must have at most 2000 characters."
    assert len(three.get("/rewinds")["items"]) == 1


def test_the_ranges_of_a_rewind_and_of_a_page_are_limited(
    three: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.api.rewinds.MAX_RANGES", 3)
    for _ in range(4):
        head = three.append(ask("more"))[0]
        three.post("/rewinds", {"to_position": head})  # cuts nothing off, and ends a range
    done = three.post("/rewinds", {"to_position": 1})
    assert [cut["first_position"] for cut in done["cut_off"]] == [9, 11, 13]
    assert three.post(f"/rewinds/{done['position']}/undo").status == 201
    three.post("/rewinds", {"to_position": 1})
    assert [len(rewind["cut_off"]) for rewind in three.get("/rewinds")["items"]] == [3, 0, 3, 0, 0, 0, 0]
    monkeypatch.setattr("historyapp.api.rewinds.MAX_PAGE_RANGES", 3)
    first = three.get("/rewinds")
    assert len(first["items"]) == 1
    assert len(three.get(f"/rewinds?cursor={first['next']}")["items"]) == 2
