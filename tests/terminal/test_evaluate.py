"""``playhead evaluate``: starting an evaluation, waiting for it, and its table."""

from typing import Any
from uuid import UUID

import pytest

from historyapp.evaluators import work_on_evaluations
from historyapp.models import Evaluation, Project, Session
from historyapp.terminal import evaluate as command
from historyapp.terminal.evaluate import number_list
from historyapp.terminal.server import Server
from tests.services.evaluations.lookups import record_lookups
from tests.terminal.conftest import Playhead

OPTIONS = ("--budgets", "300,2000", "--policies", "live,budgeted")


@pytest.fixture
def lookups(project: Project) -> Session:
    return record_lookups(project)


def test_the_table_shows_each_policy_with_each_budget(playhead: Playhead, lookups: Session) -> None:
    printed = playhead("evaluate", lookups.pk, *OPTIONS)
    assert printed.code == 0
    lines = printed.out.splitlines()
    assert lines[0] == "3 steps of 1 session. In parentheses: 95 % intervals."
    rows = [line.split() for line in lines[3:7]]
    assert [row[:2] for row in rows] == [
        ["live", "300"],
        ["budgeted", "300"],
        ["live", "2,000"],
        ["budgeted", "2,000"],
    ]
    assert rows[0][2:4] == ["0.0", "%"]
    assert rows[2][2:5] == ["100.0", "%", "(100–100)"]
    assert "Recommended: " in printed.out
    assert "Prices as of " in printed.out
    assert "Only one session was measured." in printed.err
    assert "It does not say whether the agent would have done better." in printed.err


def test_the_json_equals_that_of_the_api(playhead: Playhead, lookups: Session) -> None:
    evaluation = playhead("evaluate", "last", *OPTIONS, "--json").answer
    assert (evaluation["state"], evaluation["results"]["steps"]) == ("finished", 3)


def test_a_worker_can_run_an_evaluation_and_its_result_is_shown_later(
    playhead: Playhead, lookups: Session
) -> None:
    started = playhead("evaluate", lookups.pk, *OPTIONS, "--no-wait")
    id = Evaluation.objects.get().pk
    assert started.out == f"The evaluation is running: playhead evaluate --result {id}\n"
    assert playhead("evaluate", "--result", id, "--no-wait").out == started.out
    work_on_evaluations()
    assert "Recommended: " in playhead("evaluate", "--result", id).out


def test_the_newest_sessions_of_an_agent_are_evaluated(playhead: Playhead, lookups: Session) -> None:
    Session.objects.update(agent="looker")
    assert playhead("evaluate", "--agent", "looker", *OPTIONS, "--json").answer["total"] == 1
    assert "There is no session of the agent other." in playhead("evaluate", "--agent", "other").err


def test_a_session_with_nothing_to_measure_is_named(playhead: Playhead, session_id: UUID) -> None:
    printed = playhead("evaluate", session_id, *OPTIONS)
    assert printed.code == 1
    assert "Nothing could be measured." in printed.err
    assert "Fix the parser: skipped. No step after the sixth" in printed.err


def test_wrong_options_are_refused(playhead: Playhead, lookups: Session) -> None:
    assert "Name sessions, or an agent" in playhead("evaluate").err
    assert "There is no policy 'x'" in playhead("evaluate", "last", "--policies", "x").err
    assert playhead("evaluate", "last", "--budgets", "few").code == 2
    assert playhead("evaluate", "last", "--budgets", "1").code == 2
    assert number_list("2_000,8000") == [2000, 8000]


def test_a_remote_server_is_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluation: dict[str, Any] = {"id": "x", "state": "running", "progress": 0.0, "results": None}
    states = iter(("running", "running", "cancelled"))
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    server = Server("http://127.0.0.1:1", "ph_x")
    monkeypatch.setattr(server, "get", lambda path: {**evaluation, "state": next(states), "progress": 0.5})
    assert command._wait(server, evaluation)["state"] == "cancelled"
    assert slept == [0.1, 0.2, 0.4]
