"""The sliding-window history: summaries, a blank line, the newest steps in detail. No step is missing."""

from typing import Any

import pytest

from historyapp.core import sliding_history
from historyapp.core.policies import base as policies
from tests.api.agent import Agent, called, returned


@pytest.fixture
def ten(alice: Agent) -> Agent:
    """Ten reviewed steps; the window holds two."""
    made = alice.post("/sessions", {"settings": {"window_size": 2}})
    run = alice.within(f"/sessions/{made['id']}")
    for number in range(1, 11):
        step(run, f"analysis {number}", f"execution {number}", {"score": 0.5, "passed": True})
    return run


def step(run: Agent, analysis: Any, execution: Any, supervision: Any) -> None:
    body = {
        "analysis_result": analysis,
        "execution_result": execution,
        "supervision_result": supervision,
    }
    assert run.post("/steps", body).status == 201


def summarise(run: Agent, first: int, last: int, text: str, **more: Any) -> None:
    body = {"from_step": first, "to_step": last, "text": text, **more}
    assert run.post("/summaries", body).status == 201


def history(run: Agent, query: str = "") -> str:
    return str(run.get(f"/history{query}")["text"])


def test_key_points_are_searched_in_a_limited_number_of_characters(
    ten: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searching 900 points in an imported summary of ten million characters took two minutes."""
    summarise(ten, 1, 8, "The parser drops it.", key_points=["parser", "lexer"])
    assert [point in history(ten) for point in ("- parser", "- lexer")] == [False, True]
    monkeypatch.setattr(sliding_history, "MAX_COMPARED", 2 * len("The parser drops it.") - 1)
    assert [point in history(ten) for point in ("- parser", "- lexer")] == [True, True]


def test_an_empty_history_is_an_empty_text(run: Agent) -> None:
    assert history(run) == ""


def test_a_reviewed_step_is_shown_by_its_three_texts(run: Agent) -> None:
    step(run, "find it", {"changed": ["ä.py"]}, "line one\nline two")
    assert history(run) == (
        "### Step 1:\n"
        "- **Analysis:** find it\n"
        '- **Execution:** {"changed": ["ä.py"]}\n'
        "- **Supervision:** \n    line one\n    line two"
    )


def test_other_steps_are_shown_in_long_form(run: Agent) -> None:
    run.append(called("a"), returned("a", "fine"))
    assert history(run) == (
        "### Step 1: Executed `read(path='a')`\n"
        '- **Reasoning:** ""\n- **Status:** `success`\n- **Output:** fine'
    )


def test_summaries_come_first_then_a_blank_line_then_the_window(ten: Agent) -> None:
    summarise(ten, 1, 4, "began", key_points=["a.py", "began"])
    summarise(ten, 5, 8, "went on")
    summaries, nine, ten_ = history(ten).split("\n\n")
    assert summaries == "Steps 1 to 4: began\n- a.py\nSteps 5 to 8: went on"
    assert nine.startswith("### Step 9:\n")
    assert "analysis 9" in nine
    assert ten_.startswith("### Step 10:\n")


def test_an_older_step_without_a_summary_is_shown_in_its_place(ten: Agent) -> None:
    summarise(ten, 1, 3, "began")
    summarise(ten, 5, 5, "its own")
    assert history(ten).split("\n\n")[0].split("\n") == [
        "Steps 1 to 3: began",
        "Step 4: Executed `execute_step()`: execution 4",
        "Step 5: its own",
        *(f"Step {number}: Executed `execute_step()`: execution {number}" for number in (6, 7, 8)),
    ]


def test_a_higher_summary_hides_those_that_it_covers(ten: Agent) -> None:
    for number in range(1, 9):
        summarise(ten, number, number, f"step {number}")
    summarise(ten, 1, 4, "one to four")
    summarise(ten, 5, 8, "five to eight")
    assert history(ten).split("\n\n")[0] == "Steps 1 to 4: one to four\nSteps 5 to 8: five to eight"
    summarise(ten, 1, 8, "all of them")
    assert history(ten).split("\n\n")[0] == "Steps 1 to 8: all of them"


def test_many_hidden_summaries_are_not_read(ten: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "MAX_HIDDEN", 2)
    summarise(ten, 1, 1, "the first")
    for number in range(2, 9):
        summarise(ten, number, number, f"step {number}")
    summarise(ten, 2, 8, "the rest")
    assert history(ten).split("\n\n")[0] == "Step 1: the first\nSteps 2 to 8: the rest"


def test_a_summary_that_reaches_into_the_window_does_not_hide_steps_before_the_window(ten: Agent) -> None:
    summarise(ten, 7, 9, "too far")
    lines = history(ten).split("\n\n")[0].split("\n")
    assert [line.partition(":")[0] for line in lines] == [f"Step {number}" for number in range(1, 9)]


def test_left_out_steps_are_listed_by_number(ten: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliding_history, "MAX_LINES", 2)
    summarise(ten, 4, 5, "in between")
    assert history(ten).split("\n\n")[0].split("\n") == [
        "Steps 1 to 3: not summarised yet, and too many to show here.",
        "Steps 4 to 5: in between",
        "Step 6: not summarised yet, and too many to show here.",
        "Step 7: Executed `execute_step()`: execution 7",
        "Step 8: Executed `execute_step()`: execution 8",
    ]
    monkeypatch.setattr(sliding_history, "MAX_SUMMARIES", 0)
    assert "Steps 1 to 8: summarised, but there are too many summaries to show." in history(ten)


def test_the_history_is_as_of_a_position(ten: Agent) -> None:
    summarise(ten, 1, 8, "all of them")
    step(ten, "more", "more", "more")
    assert "all of them" in history(ten)
    assert history(ten, "?as_of=30").startswith("Steps 1 to 8: all of them\n\n### Step 9:")
    nine = history(ten, "?as_of=29")  # the summary was made at 30
    assert nine.startswith("Step 1: Executed")


def test_a_rewind_removes_steps_and_their_summaries(ten: Agent) -> None:
    summarise(ten, 1, 4, "began")
    summarise(ten, 5, 8, "went on")
    ten.post("/rewinds", {"to_step": 6})
    assert [line.partition(":")[0] for line in history(ten).split("\n\n")] == [
        "Steps 1 to 4",
        "### Step 5",
        "### Step 6",
    ]
