"""Summaries written by hand: they replace steps wherever these are live."""

from typing import Any

import pytest

from tests.api.agent import Agent
from tests.api.test_problems import assert_problem


@pytest.fixture
def three(run: Agent) -> Agent:
    for number in range(1, 4):
        run.step("ls", number)
    return run


def summarise(run: Agent, first: int, last: int, text: str = "did it", **more: Any) -> dict[str, Any]:
    written = run.post("/summaries", {"from_step": first, "to_step": last, "text": text, **more})
    assert written.status == 201, written.body
    return dict(written.body)


def test_a_summary_has_its_range_of_steps(three: Agent) -> None:
    written = summarise(three, 1, 2, "\ud800 found", key_points=["a", "\x00"])
    assert (written["from_step"], written["to_step"], written["level"]) == (1, 2, 2)
    assert (written["first_position"], written["last_position"], written["made_at"]) == (1, 4, 6)
    assert (written["text"], written["key_points"], written["strategy"]) == (
        "\ud800 found",
        ["a", "\x00"],
        "manual",
    )
    assert written["tokens_before"] > 0
    assert written["tokens_after"] > 0
    assert three.get("/summaries")["items"] == [written]


def test_negative_steps_count_from_the_end(three: Agent) -> None:
    assert summarise(three, -3, -2)["to_step"] == 2


def test_the_newest_summary_of_a_step_is_shown_with_it(three: Agent) -> None:
    summarise(three, 2, 2, "first")
    summarise(three, 2, 2, "")
    assert [three.get(f"/episodes/{number}")["summary"] for number in (1, 2)] == [None, ""]


def test_the_summary_of_a_range_does_not_hide_summaries_of_its_steps(three: Agent) -> None:
    summarise(three, 2, 2, "its own")
    summarise(three, 1, 3, "of all")
    for query in ("from=2&to=2", "from=1&to=3"):
        episodes = three.get(f"/episodes?full=true&{query}")["items"]
        assert [e["summary"] for e in episodes if e["number"] == 2] == ["its own"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"from_step": 1, "to_step": 4, "text": "x"}, "There is no step 4"),
        ({"from_step": 0, "to_step": 1, "text": "x"}, "There is no step 0"),
        ({"from_step": 2, "to_step": 1, "text": "x"}, "comes after"),
        ({"from_step": 1, "text": "x"}, "body.to_step is missing"),
        ({"from_step": "1", "to_step": 1, "text": "x"}, "body.from_step"),
        ({"from_step": 1, "to_step": 1, "text": None}, "body.text"),
        ({"from_step": 1, "to_step": 1, "text": "x", "strategy": "mine"}, "body.strategy is not a field"),
    ],
)
def test_an_invalid_summary_is_refused(three: Agent, body: dict[str, Any], words: str) -> None:
    assert_problem(three.post("/summaries", body), 422, words)
    assert three.get("/summaries")["items"] == []


def test_a_step_in_flight_can_be_summarised_once_it_has_a_result(three: Agent) -> None:
    three.act()
    for steps in ({"from_step": 4, "to_step": 4}, {"from_step": 1, "to_step": -1}):
        response = three.post("/summaries", {**steps, "text": "is being looked at"})
        assert_problem(response, 409, "Step 4 is still in flight")
    three.fail()
    assert three.post("/summaries", {"from_step": 4, "to_step": 4, "text": "failed"}).status == 201


def test_a_summary_is_live_while_its_steps_are(three: Agent) -> None:
    kept, cut = summarise(three, 1, 1), summarise(three, 2, 3)
    done = three.post("/rewinds", {"to_step": 2})
    assert three.get("/summaries")["items"] == [kept]
    assert three.get("/summaries?as_of=6")["items"] == [kept, cut]
    three.post(f"/rewinds/{done['position']}/undo")
    assert three.get("/summaries")["items"] == [kept, cut]


def test_a_summary_is_not_listed_as_of_an_earlier_position(three: Agent) -> None:
    summarise(three, 1, 1)
    assert three.get("/summaries?as_of=5")["items"] == []
    assert three.get("/episodes/1?as_of=5")["summary"] is None


def test_a_fork_shares_summaries_of_shared_steps(alice: Agent, three: Agent) -> None:
    before = summarise(three, 1, 1, "before")
    fork = alice.within(f"/sessions/{three.post('/forks', {'at_step': 2})['id']}")
    after = summarise(three, 2, 2, "after")
    from_fork = summarise(fork, 1, 2, "from the fork")
    assert fork.get("/summaries")["items"] == [before, after, from_fork]
    assert three.get("/summaries")["items"] == [before, after, from_fork]


def test_summaries_are_ordered_by_where_they_end(three: Agent) -> None:
    last, first = summarise(three, 3, 3), summarise(three, 1, 1)
    assert three.get("/summaries")["items"] == [first, last]


def test_the_texts_of_a_summary_have_limits(three: Agent) -> None:
    summarise(three, 1, 2, "x" * 100_000, key_points=["y" * 2_000])
    for field, wrong in (("text", "x" * 100_001), ("key_points", ["y" * 2_001])):
        refused = three.post("/summaries", {"from_step": 1, "to_step": 2, "text": "a", field: wrong})
        assert_problem(refused, 422, "must have at most", "characters")
        assert refused["errors"][0]["loc"][:2] == ["body", field]
    assert len(three.get("/summaries")["items"]) == 1


def test_a_page_of_summaries_ends_after_8_mb(three: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("historyapp.models.summaries.MAX_PAGE_BYTES", 5_000)
    written = [summarise(three, 1, 1, f"{number} " + "é" * 400) for number in range(5)]
    first = three.get("/summaries")
    assert first["items"] == written[:3]  # the third exceeds the limit: a letter is six characters of JSON
    assert three.get(f"/summaries?cursor={first['next']}")["items"] == written[3:]
    assert three.get("/summaries?limit=4")["items"] == written[:3]


def test_a_limited_number_of_summaries_can_end_with_the_same_step(
    three: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.services.summaries.MAX_SAME_END", 2)
    summarise(three, 1, 2)
    summarise(three, 2, 2)
    refused = three.post("/summaries", {"from_step": 1, "to_step": 2, "text": "one more"})
    assert_problem(refused, 409, "2 summaries end with step 2 already", "another end")
    summarise(three, 1, 3)
