"""The overview of a session over HTTP."""

from typing import Any

import pytest
from django.utils.dateparse import parse_datetime

from historyapp.models import Session
from historyapp.services.figures import run_figures
from tests.api.agent import Agent, ask

USAGE = {
    "input_tokens": 1000,
    "cache_read_input_tokens": 500,
    "cache_creation_input_tokens": 100,
    "output_tokens": 20,
}


def called(name: str, second: int, metadata: Any = None, **arguments: Any) -> dict[str, Any]:
    call = {"id": f"c{second}", "name": name, "arguments": arguments}
    entry = {"kind": "model_output", "tool_calls": [call], "created_at": time_at(second)}
    return {**entry, "metadata": metadata or {}}


def returned(second: int, of: int, status: str = "success") -> dict[str, Any]:
    result = {"tool_call_id": f"c{of}", "status": status}
    result |= {"outputs": "fine"} if status == "success" else {"reason": "FAIL: test_totals"}
    return {"kind": "tool_results", "results": [result], "created_at": time_at(second)}


def time_at(second: int) -> str:
    return f"2026-01-31T09:{second // 60:02}:{second % 60:02}Z"


@pytest.fixture
def worked(run: Agent) -> Agent:
    run.append(
        {**ask(), "created_at": time_at(0)},
        called("Read", 4, {"usage": USAGE, "model": "claude-opus-4-5"}, file_path="/src/a.py"),
        returned(5, 4),
        called("Edit", 9, None, file_path="/src/a.py", old_string="a", new_string="b\nc"),
        returned(10, 9),
        called("Bash", 12, None, command="pytest"),
        returned(42, 12, "error"),
        {"kind": "model_output", "text": "It still fails.", "created_at": time_at(45)},
    )
    return run


def test_figures_name_their_steps(worked: Agent) -> None:
    overview = worked.get("/overview")
    assert (overview["steps"], overview["counted_steps"]) == (4, 4)
    assert overview["ending"] == {
        "kind": "failed_command", "text": "answered after a failed command", "steps": [3, 4],
    }  # fmt: skip
    tools = {
        tool["name"]: (tool["kind"], tool["calls"], tool["errors"], tool["steps"])
        for tool in overview["tools"]
    }
    assert tools == {"Read": ("read", 1, 0, [1]), "Edit": ("edit", 1, 0, [2]), "Bash": ("shell", 1, 1, [3])}
    assert overview["files"] == [
        {
            "path": "/src/a.py", "reads": 1, "edits": 1, "added": 2, "removed": 1, "commands": 0,
            "diffs": 0, "diff_added": 0, "diff_removed": 0, "deleted_in": None, "steps": [1, 2],
            "edit_steps": [2], "read_again": [],
        }
    ]  # fmt: skip
    assert overview["commands"] == [
        {
            "command": "pytest",
            "runs": 1,
            "errors": 1,
            "likely_failures": 0,
            "seconds": 30.0,
            "steps": [3],
        }
    ]
    assert overview["worth_a_look"][0] == {
        "kind": "first_failure", "text": "First failure: Bash", "seconds": None, "steps": [3],
    }  # fmt: skip
    assert overview["slowest"][0] == {"step": 3, "tool": "Bash", "target": "pytest", "seconds": 30.0}


def test_time_is_split(worked: Agent) -> None:
    time = worked.get("/overview")["time"]
    assert (time["model"], time["tools"], time["waiting"], time["total"]) == (13.0, 32.0, 0.0, 45.0)
    assert parse_datetime(time["started_at"]) == parse_datetime(time_at(0))


def test_tokens_and_money_say_where_they_come_from(worked: Agent) -> None:
    overview, ledger = worked.get("/overview"), worked.get("/ledger")
    tokens, money = overview["tokens"], overview["money"]
    assert tokens == {**ledger["usage"], "shown": 1600, "source": "reported"}
    assert money == {
        "amount": ledger["money"], "source": "priced", "prices_as_of": ledger["prices_as_of"],
        "unknown_models": [],
    }  # fmt: skip
    assert overview["dearest"][0]["step"] == 1
    assert overview["dearest"][0]["money"] == money["amount"]


def test_the_size_of_the_context_is_the_reported_input(worked: Agent) -> None:
    context = worked.get("/overview")["context"]
    assert (context["source"], context["points"]) == ("reported", [[1, 1600]])
    assert (context["model"], context["turns"]) == ("claude-opus-4-5", [1])


def test_a_run_without_times_and_usage_says_so(run: Agent) -> None:
    run.append(ask(), called("Bash", 1, command="ls"), returned(1, 1))
    overview = run.get("/overview")
    assert overview["tokens"]["source"] == "estimated"
    assert overview["tokens"]["shown"] > 0
    assert (overview["money"]["amount"], overview["money"]["source"]) == (None, "none")
    assert overview["context"]["source"] == "estimated"
    assert overview["dearest"] == []


def test_entries_that_all_have_the_same_time_are_undated(run: Agent) -> None:
    run.append(called("Bash", 1, command="ls"), returned(1, 1))
    overview = run.get("/overview")
    assert set(overview["time"].values()) == {None}
    assert (overview["slowest"], overview["tools"][0]["seconds"]) == ([], None)


def test_an_empty_session_has_an_overview(run: Agent) -> None:
    overview = run.get("/overview")
    assert (overview["steps"], overview["ending"]["kind"], overview["worth_a_look"]) == (0, "empty", [])


def test_earlier_positions_have_their_own_figures(worked: Agent) -> None:
    overview = worked.get("/overview?as_of=3")
    assert (overview["steps"], [tool["name"] for tool in overview["tools"]]) == (1, ["Read"])
    assert worked.get("/overview?as_of=99").status == 422


def test_a_long_run_is_counted_in_parts(worked: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_figures, "SECONDS", 0.0)
    counted = [worked.get("/overview")["counted_steps"] for _ in range(4)]
    assert counted == [1, 2, 3, 4]


def test_sub_agents_are_a_tree_with_rolled_up_figures(alice: Agent) -> None:
    ids = [alice.post("/sessions", {"title": f"agent {n}"})["id"] for n in range(3)]
    for id in ids:
        alice.within(f"/sessions/{id}").append(
            ask(), called("Bash", 1, {"usage": USAGE}), returned(3, 1, "error")
        )
    for child, parent in ((ids[1], ids[0]), (ids[2], ids[1])):
        Session.objects.filter(pk=child).update(spawned_by=parent)
    subagents = alice.within(f"/sessions/{ids[0]}").get("/overview")["subagents"]
    assert [one["money"] for one in subagents] == [None, None], "no model is known"
    shown = [
        (one["session"], one["started_by"], one["level"], one["steps"], one["errors"], one["tokens"])
        for one in subagents
    ]
    assert shown == [(ids[1], ids[0], 1, 2, 2, 3200), (ids[2], ids[1], 2, 1, 1, 1600)]


def test_the_tree_of_sub_agents_ends_where_sessions_are_their_own_ancestors(alice: Agent) -> None:
    parent, child = (alice.post("/sessions", {})["id"] for _ in range(2))
    Session.objects.filter(pk=child).update(spawned_by=parent)
    for above in (parent, child):
        Session.objects.filter(pk=parent).update(spawned_by=above)
        children = alice.get(f"/sessions/{parent}/overview")["subagents"]
        assert [row["session"] for row in children] == [child]


def test_a_sub_agent_names_the_step_whose_call_started_it(alice: Agent) -> None:
    parent, child, other = (alice.post("/sessions", {"title": f"agent {n}"})["id"] for n in range(3))
    alice.within(f"/sessions/{parent}").append(
        ask(),
        called("Bash", 1, command="ls"),
        returned(1, 1),
        called("Task", 2, prompt="Look"),
        returned(1, 2),
    )
    Session.objects.filter(pk=child).update(spawned_by=parent, spawned_position=4)
    Session.objects.filter(pk=other).update(spawned_by=parent)
    subagents = alice.within(f"/sessions/{parent}").get("/overview")["subagents"]
    assert {one["session"]: one["started_at_step"] for one in subagents} == {child: 2, other: None}
