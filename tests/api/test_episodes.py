"""Steps: numbers count the live history, invalid ranges are explained, and a single step has its bodies."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.agent import Agent, ask, called, returned
from tests.api.conftest import Owner
from tests.api.test_problems import assert_problem
from tests.examples import examples


@pytest.fixture(scope="module")
def recorded(owner: Owner) -> Agent:
    run = owner.begin_run()
    for number in range(1, 6):
        run.step(f"tool{number}", number)
    return run


@pytest.fixture
def five(recorded: Agent, db: None) -> Agent:
    return recorded


def numbers(run: Agent, query: str) -> list[int]:
    response = run.get(f"/episodes{query}")
    assert response.status == 200, response.body
    return [item["number"] for item in response["items"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [1, 2, 3, 4, 5]),
        ("?order=newest", [5, 4, 3, 2, 1]),
        ("?from=2&to=4", [2, 3, 4]),
        ("?from=-2", [4, 5]),
        ("?to=-4", [1, 2]),
        ("?from=-5&to=1", [1]),
        ("?from=2&to=4&order=newest&limit=2", [4, 3]),
        ("?from=5&to=5", [5]),
        ("?as_of=4", [1, 2]),
        ("?as_of=4&from=-1", [2]),
        ("?as_of=0", []),
    ],
)
def test_a_slice_has_the_requested_steps(five: Agent, query: str, expected: list[int]) -> None:
    assert numbers(five, query) == expected
    full = numbers(five, f"{query}{'&' if query else '?'}full=true")
    assert full == expected


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(-7, 7), stop=st.integers(-7, 7))
def test_a_slice_equals_a_python_slice_or_is_an_error(five: Agent, start: int, stop: int) -> None:
    response = five.get(f"/episodes?from={start}&to={stop}")
    steps = [1, 2, 3, 4, 5]
    first, last = (number if number > 0 else 6 + number for number in (start, stop))
    if first in steps and last in steps and start and stop and first <= last:
        assert [item["number"] for item in response["items"]] == steps[first - 1 : last]
    else:
        assert_problem(response, 422)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("from=6", "There is no step 6. Use 1 to 5, or -1 to -5 from the end."),
        ("to=-6", "There is no step -6"),
        ("from=0", "There is no step 0"),
        ("from=4&to=2", "`from` is step 4, which comes after `to`, step 2"),
        ("from=x", "query.from must be a whole number"),
        ("full=1", "query.full must be 'true' or 'false'"),
        ("order=random", "query.order must be"),
    ],
)
def test_the_error_of_a_slice_beyond_the_history_gives_the_range(five: Agent, query: str, words: str) -> None:
    assert_problem(five.get(f"/episodes?{query}"), 422, words)


@pytest.mark.parametrize("number", ["6", "-6", "0", "2147483647"])
def test_a_step_beyond_the_history_is_not_found(five: Agent, number: str) -> None:
    refused = five.get(f"/episodes/{number}")
    assert_problem(refused, 404, f"There is no step {number}")
    assert refused["steps"] == 5


def test_an_empty_history_has_no_steps(run: Agent) -> None:
    assert numbers(run, "") == []
    assert_problem(run.get("/episodes/-1"), 404, "has no steps yet")
    assert_problem(run.get("/episodes?from=1"), 422, "has no steps yet")


def test_negative_numbers_count_from_the_end(five: Agent) -> None:
    assert five.get("/episodes/-1").body == five.get("/episodes/5").body
    assert five.get("/episodes/-5")["number"] == 1


def test_a_list_shows_previews_and_no_bodies(run: Agent) -> None:
    run.append(ask("x" * 5000))
    run.act("write", text="y" * 5000)
    run.succeed("z" * 5000)
    (item,) = run.get("/episodes")["items"]
    previews = ["input_preview", "thought_preview", "call_preview", "result_preview"]
    assert [len(item[name]) for name in previews] == [200, len("let me see"), 200, 200]
    assert {"thoughts", "action", "result", "formatted"}.isdisjoint(item)
    assert item["tool_names"] == ["write"]
    assert item["tokens"] > 0


def test_a_single_step_has_its_bodies(run: Agent) -> None:
    run.append(called("a", "b"), returned("b", 2), returned("a", [1]))
    step: dict[str, Any] = run.get("/episodes/1").body
    assert step["action"] == {"name": "read", "arguments": {"path": "a"}}
    assert [call["id"] for call in step["tool_calls"]] == ["a", "b"]
    assert step["result"]["outputs"] == "read (2 of 2): 2\nread (1 of 2): [1]"
    assert step["formatted"].startswith("Executed `read(path='a'); read(path='b')`")
    assert (step["status"], step["first_position"], step["last_position"]) == ("success", 1, 3)
    assert step["started_at"] <= step["finished_at"]
    assert run.get("/episodes?full=true")["items"] == [step]


def test_an_answer_has_no_action(run: Agent) -> None:
    run.append({"kind": "model_output", "text": "done"})
    step = run.get("/episodes/1")
    assert (step["status"], step["action"], step["tool_calls"], step["result"]) == (
        "answered",
        None,
        [],
        None,
    )
    assert step["thoughts"] is None


def test_a_step_in_flight_has_no_result_yet(run: Agent) -> None:
    run.act()
    step = run.get("/episodes/1")
    assert (step["status"], step["result"], step["finished_at"]) == ("in_flight", None, None)


def test_a_step_can_be_read_as_of_a_position(run: Agent) -> None:
    run.step()
    assert run.get("/episodes/1?as_of=1")["status"] == "in_flight"
    assert run.get("/episodes?as_of=1")["items"][0]["status"] == "in_flight"
    assert_problem(run.get("/episodes/1?as_of=0"), 404)


def test_numbers_count_the_live_history(five: Agent) -> None:
    five.post("/rewinds", {"to_step": 2})
    five.step("again")
    assert [item["tool_names"] for item in five.get("/episodes")["items"]] == [
        ["tool1"],
        ["tool2"],
        ["again"],
    ]
    assert five.get("/episodes/3?as_of=10")["action"]["name"] == "tool3"


@pytest.fixture
def mixed(run: Agent) -> Agent:
    """Steps 1 to 6: ls, ls failed, read and write, abandoned, answered, in flight; a minute apart."""
    at = [f"2026-01-01T12:0{minute}:00Z" for minute in range(6)]
    both: Any = {
        "kind": "model_output",
        "tool_calls": [{"id": name, "name": name} for name in ("read", "write")],
    }
    ls = {"kind": "model_output", "use_tool": {"name": "ls"}}
    failed = {"kind": "tool_results", "results": [{"status": "error", "reason": "gone"}]}
    done = {"kind": "tool_results", "results": [{"status": "success"}]}
    steps: Any = [
        [ls, done],
        [ls, failed],
        [both, done],
        [both],
        [{"kind": "model_output", "text": "hi"}],
        [ls],
    ]
    for moment, entries in zip(at, steps, strict=True):
        run.append(*({**entry, "created_at": moment} for entry in entries))
    return run


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?status=success", [1, 3]),
        ("?status=error", [2]),
        ("?status=abandoned", [4]),
        ("?status=answered", [5]),
        ("?status=in_flight", [6]),
        ("?status=interrupted_by_human", []),
        ("?tool=ls", [1, 2, 6]),
        ("?tool=write&order=newest", [4, 3]),
        ("?tool=nothing", []),
        ("?since=2026-01-01T12:02:00Z&until=2026-01-01T12:04:00Z", [3, 4]),
        ("?since=2026-01-01T14:02:00%2B02:00&status=success", [3]),
        ("?tool=ls&from=2&to=-2", [2]),
        ("?tool=ls&as_of=1", [1]),
        ("?status=in_flight&as_of=1", [1]),
        ("?status=success&as_of=1", []),
        ("?tool=ls&full=true&order=newest", [6, 2, 1]),
    ],
)
def test_steps_are_found_by_status_tool_and_time(mixed: Agent, query: str, expected: list[int]) -> None:
    assert numbers(mixed, query) == expected


def test_likely_failures_are_named_and_found(run: Agent) -> None:
    make = {"kind": "model_output", "use_tool": {"name": "bash", "arguments": {"command": "make | tail"}}}
    for outputs in ("fine", "error: no rule"):
        done = {"status": "success", "outputs": outputs}
        run.append(make, {"kind": "tool_results", "results": [done]})
    assert numbers(run, "?status=likely_failed") == [2]
    for step in (run.get("/episodes/2"), run.get("/episodes?from=2")["items"][0]):
        assert (step["status"], step["likely_failure"]) == ("success", "command_error")
        assert (step["kind"], step["target"]) == ("shell", "make | tail")
        assert step["error_line"] == "error: no rule"


def test_pages_of_filtered_steps_show_the_state_of_the_first_page(mixed: Agent) -> None:
    first = mixed.get("/episodes?tool=ls&limit=2")
    assert [item["number"] for item in first["items"]] == [1, 2]
    mixed.succeed()
    mixed.step("ls")
    second = mixed.get(f"/episodes?tool=ls&limit=2&cursor={first['next']}")
    assert [(item["number"], item["status"]) for item in second["items"]] == [(6, "in_flight")]
    assert second["next"] is None
    assert_problem(mixed.get(f"/episodes?cursor={first['next']}"), 422, "cursor")


def test_the_steps_of_a_file_can_be_limited_to_its_edits(run: Agent) -> None:
    for arguments in (
        {"path": "a.py"},
        {"path": "a.py", "old_str": "x"},
        {"path": "b.py", "old_str": "a.py"},
    ):
        call = {"kind": "model_output", "use_tool": {"name": "read_file", "arguments": arguments}}
        run.append(call, {"kind": "tool_results", "results": [{"status": "success"}]})
    assert numbers(run, "?file=a.py") == [1, 2]
    assert numbers(run, "?file=a.py&edited=true") == [2]
    assert_problem(run.get("/episodes?edited=true"), 422, "edited")


@pytest.mark.parametrize("query", ["status=fine", "tool=", "since=yesterday", "until=5", "tool=%00"])
def test_an_invalid_filter_is_refused(mixed: Agent, query: str) -> None:
    assert_problem(mixed.get(f"/episodes?{query}"), 422, f"query.{query.partition('=')[0]}")


def test_full_steps_that_are_not_adjacent_have_their_own_bodies(mixed: Agent) -> None:
    items = mixed.get("/episodes?tool=ls&full=true")["items"]
    assert items == [mixed.get(f"/episodes/{number}").body for number in (1, 2, 6)]
