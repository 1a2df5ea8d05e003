"""Actions, results and whole steps: one action at a time, each with one result."""

from collections.abc import Sequence
from typing import Any

import pytest
from django.db import connection

from historyapp.models import Entry, Session, fields
from historyapp.services import actions, packing, statements
from tests.api.agent import Agent, ask, called, returned
from tests.api.test_problems import assert_problem

IN_FLIGHT = "Action for current cycle already set"
NONE_IN_FLIGHT = "Cannot register result for cycle without action"
RAW = {
    "content": "Let me look.",
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": {"all": True}}}
    ],
}


def test_an_action_and_its_result_make_a_step(run: Agent) -> None:
    action = run.post(
        "/actions", {"thoughts": "look", "use_tool": {"name": "ls", "arguments": {"all": True}}}
    )
    assert (action.status, action.body) == (201, {"position": 1, "number": 1, "head": 1})
    assert run.get("/episodes/1")["status"] == "in_flight"
    result = run.succeed(["a", None])
    assert (result.status, result.body) == (201, {"position": 2, "number": 1, "head": 2})
    step = run.get("/episodes/1")
    assert step["status"] == "success"
    assert step["thoughts"] == "look"
    assert step["action"] == {"name": "ls", "arguments": {"all": True}}
    assert step["result"] == {"tool_name": "ls", "status": "success", "outputs": ["a", None]}


def test_a_second_action_is_refused_while_one_is_in_flight(run: Agent) -> None:
    run.act()
    refused = run.act()
    assert_problem(refused, 409)
    assert refused["detail"] == IN_FLIGHT
    assert run.get()["head"] == 1


@pytest.mark.parametrize("before", [[], ["step"]])
def test_a_result_without_an_action_is_refused(run: Agent, before: list[str]) -> None:
    for _ in before:
        run.step()
    refused = run.succeed()
    assert_problem(refused, 409)
    assert refused["detail"] == NONE_IN_FLIGHT
    assert run.get()["head"] == 2 * len(before)


def test_calls_of_the_raw_message_are_used_and_answered_together(run: Agent) -> None:
    assert run.post("/actions", {"use_tool": {"name": "ls"}, "raw_message": RAW}).status == 201
    entry = run.get("/entries/1")
    assert entry["raw_message"] == RAW
    assert entry["tool_calls"] == [{"id": "call_1", "name": "ls", "arguments": {"all": True}}]
    assert entry["text"] == "Let me look."
    run.succeed("files")
    assert run.get("/messages")["messages"] == [
        {"role": "assistant", "content": "Let me look.", "tool_calls": RAW["tool_calls"]},
        {"role": "tool", "content": "files", "tool_call_id": "call_1", "is_error": False},
    ]


def test_an_action_with_an_unanswered_call_is_in_flight(run: Agent) -> None:
    run.append(called("a", "b"), returned("a"))
    assert run.act()["detail"] == IN_FLIGHT
    assert run.succeed().status == 201
    assert run.get("/episodes/1")["status"] == "success"


@pytest.mark.parametrize(
    ("result", "status"),
    [
        ({"status": "success"}, "success"),
        ({"status": "success", "outputs": None}, "success"),
        ({"status": "success", "outputs": {"a": None, "b": "\ud800\x00"}}, "success"),
        ({"status": "error", "reason": "gone"}, "error"),
        (
            {
                "status": "error",
                "reason": "gone",
                "error": {"args": [2], "message": "m", "exception_type": "OSError", "repr": "OSError(2)"},
            },
            "error",
        ),
        ({"status": "interrupted_by_human", "feedback": "stop"}, "interrupted_by_human"),
    ],
)
def test_each_result_sets_the_status_of_the_step(run: Agent, result: dict[str, Any], status: str) -> None:
    run.act()
    assert run.post("/results", result).status == 201
    step = run.get("/episodes/1")
    assert step["status"] == status
    assert step["result"] == {
        "tool_name": "ls",
        **({"outputs": None} if status == "success" else {}),
        **result,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"status": "done"},
        {"status": "skipped", "reason": "x"},
        {"status": "error"},
        {"status": "error", "reason": None},
        {"status": "error", "reason": "x", "outputs": 1},
        {"status": "success", "reason": "x"},
        {"status": "interrupted_by_human"},
        {"status": "error", "reason": "x", "error": {"message": "m"}},
        {"status": "success", "tool_call_id": "a"},
    ],
)
def test_a_wrong_result_is_refused(run: Agent, wrong: dict[str, Any]) -> None:
    run.act()
    assert_problem(run.post("/results", wrong), 422, "body")
    assert run.get("/episodes/1")["status"] == "in_flight"


def test_a_refusal_says_what_to_record_first(run: Agent) -> None:
    assert run.post("/results", {"status": "success", "outputs": ""})["help"] == "Record the action first."
    run.act()
    help = "Step 1 is waiting for a result: record that result first."
    assert run.post("/actions", {"use_tool": {"name": "ls", "arguments": {}}})["help"] == help


def test_the_path_of_an_invalid_result_names_only_its_fields(run: Agent) -> None:
    run.act()
    refused = run.post("/results", {"status": "error", "outputs": "FAIL"})
    assert refused["detail"] == "body.reason is missing (and 1 more)."
    assert [wrong["loc"] for wrong in refused["errors"]] == [["body", "reason"], ["body", "outputs"]]
    inside = run.post("/results", {"status": "error", "reason": "x", "error": {"args": 1}})
    assert [*inside["errors"][0]["loc"][:2]] == ["body", "error"]


def test_the_error_of_an_invalid_thought_has_no_internal_names(run: Agent) -> None:
    response = run.post("/actions", {"use_tool": {"name": "ls"}, "thoughts": 5})
    assert response.status == 422
    assert [wrong["loc"] for wrong in response["errors"]] == [
        ["body", "thoughts"],
        ["body", "thoughts", "Thoughts"],
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"use_tool": {"arguments": {}}},
        {"use_tool": "ls"},
        {"use_tool": {"name": "ls", "arguments": [1]}},
        {"use_tool": {"name": "ls"}, "thoughts": 5},
        {"use_tool": {"name": "ls"}, "raw_message": "x"},
        {"use_tool": {"name": "ls"}, "extra": 1},
    ],
)
def test_a_wrong_action_is_refused(run: Agent, wrong: dict[str, Any]) -> None:
    assert_problem(run.post("/actions", wrong), 422, "body")
    assert run.get()["head"] == 0


@pytest.mark.parametrize(
    ("thoughts", "shown"),
    [
        ({"summary": "look", "confidence": 0.5}, "look"),
        (
            {"observation": "Two\nfiles", "plan": ["a", None], "sure": None},
            'observation: Two\nfiles\nplan: ["a", null]',
        ),
        ({"summary": {"of": "é"}}, 'summary: {"of": "é"}'),
        ({}, ""),
    ],
)
def test_thoughts_with_any_fields_are_stored_and_shown(run: Agent, thoughts: Any, shown: str) -> None:
    assert run.post("/actions", {"thoughts": thoughts, "use_tool": {"name": "ls"}}).status == 201
    step = run.get("/episodes/1")
    assert step["thoughts"] == run.get("/entries/1")["thoughts"] == thoughts
    assert f'- **Reasoning:** "{shown}"' in step["formatted"]
    assert run.get("/episodes")["items"][0]["thought_preview"] == " ".join(shown.split())


def test_metadata_and_time_belong_to_the_entry(run: Agent) -> None:
    at = "2024-05-01T12:30:00Z"
    recorded = {"metadata": {"cost": 0.25}, "created_at": at}
    run.post("/actions", {"use_tool": {"name": "ls"}, **recorded})
    run.post("/results", {"status": "success", **recorded})
    for position in (1, 2):
        entry = run.get(f"/entries/{position}")
        assert (entry["metadata"], entry["created_at"]) == ({"cost": 0.25}, at)
    assert run.get()["cost"] == 0.5


def test_the_expected_position_must_be_the_head(run: Agent) -> None:
    action = {"use_tool": {"name": "ls"}, "expected_position": 5}
    assert_problem(run.post("/actions", action), 409, "head is 0")
    assert run.post("/actions", {**action, "expected_position": 0}).status == 201
    assert_problem(run.post("/results", {"status": "success", "expected_position": 0}), 409, "head is 1")
    assert run.post("/results", {"status": "success", "expected_position": 1}).status == 201


@pytest.mark.parametrize("path", ["/actions", "/results", "/steps", "/entries"])
def test_an_archived_session_refuses_appends(run: Agent, path: str) -> None:
    bodies = {
        "/actions": {"use_tool": {"name": "ls"}},
        "/results": {"status": "success"},
        "/steps": {"analysis_result": "", "execution_result": "", "supervision_result": ""},
        "/entries": {"entries": [ask()]},
    }
    run.delete()
    assert_problem(run.post(path, bodies[path]), 409, "archived")


def test_a_complete_step_is_appended_in_one_request(run: Agent) -> None:
    step = {
        "analysis_result": "The parser drops a line.",
        "execution_result": {"changed": ["parser.py"]},
        "supervision_result": {"score": 0.9, "passed": True, "notes": "good"},
        "timestamp": "2024-05-01T12:30:00",
    }
    assert run.post("/steps", step).body == {"position": 3, "number": 1, "head": 3}
    output, results, review = run.get("/entries")["items"]
    assert (output["thoughts"], output["use_tool"]) == (step["analysis_result"], {"name": "execute_step"})
    assert results["results"] == [
        {"tool_name": "execute_step", "status": "success", "outputs": step["execution_result"]}
    ]
    assert (review["analysis"], review["supervision"]) == (
        step["analysis_result"],
        step["supervision_result"],
    )
    assert (review["score"], review["passed"]) == (0.9, True)
    assert {entry["created_at"] for entry in (output, results, review)} == {"2024-05-01T12:30:00Z"}
    assert run.get("/episodes/1")["last_position"] == 3


@pytest.mark.parametrize(
    ("supervision", "score", "passed"),
    [
        ("looks fine, score 5", None, None),
        ({"score": "5", "passed": "yes"}, None, None),
        ({"score": True, "passed": 1}, None, None),
        ({"score": 10**400}, None, None),
        ({"score": 3}, 3, None),
        (None, None, None),
        ([1], None, None),
    ],
)
def test_only_a_valid_score_and_verdict_are_stored(
    run: Agent, supervision: Any, score: float | None, passed: bool | None
) -> None:
    body = {"analysis_result": None, "execution_result": None, "supervision_result": supervision}
    assert run.post("/steps", body).status == 201
    review = run.get("/entries/3")
    assert (review.body.get("supervision"), review.body.get("score"), review.body.get("passed")) == (
        supervision,
        score,
        passed,
    )


@pytest.mark.parametrize(
    ("analysis", "thoughts"), [("x", "x"), (None, None), ({"ä": [1]}, {"ä": [1]}), (5, "5"), ([5], "[5]")]
)
def test_the_analysis_becomes_the_thoughts(run: Agent, analysis: Any, thoughts: Any) -> None:
    run.post("/steps", {"analysis_result": analysis, "execution_result": "", "supervision_result": ""})
    assert run.get("/episodes/1")["thoughts"] == thoughts


def test_a_complete_step_abandons_an_action_in_flight(run: Agent) -> None:
    run.act()
    run.post("/steps", {"analysis_result": "", "execution_result": "", "supervision_result": ""})
    assert [step["status"] for step in run.get("/episodes")["items"]] == ["abandoned", "success"]


def test_an_analysis_whose_field_has_no_valid_name_is_refused(run: Agent) -> None:
    step = {"analysis_result": {"\ud800": "plan"}, "execution_result": "", "supervision_result": ""}
    refused = run.post("/steps", step)
    assert_problem(refused, 422, "analysis_result")
    assert refused["errors"][0]["loc"][:2] == ["body", "analysis_result"]
    assert run.get()["head"] == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("moved", [False, True])
def test_a_long_result_is_written_and_compressed_before_others_have_to_wait(
    run: Agent, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    in_transaction = list[bool]()

    def pack_all(texts: Sequence[str]) -> list[str | bytes]:
        in_transaction.append(connection.in_atomic_block)
        return fields.pack_all(texts)

    monkeypatch.setattr(packing, "pack_all", pack_all)
    monkeypatch.setattr(statements, "pack_all", pack_all)
    monkeypatch.setattr(packing, "on_sqlite", lambda: True)
    long = "x" * 600_000
    assert run.post("/actions", {"use_tool": {"name": "ls"}, "thoughts": long}).status == 201
    if moved:  # another step has begun since the session was read
        monkeypatch.setattr(actions, "read_session", lambda *_: Session())
    assert run.succeed({"name": "é", "value": long}).status == 201
    assert in_transaction == [False, False, True] if moved else in_transaction == [False, False]
    stored = Entry.objects.get(position=2)
    result = {"tool_name": "ls", "status": "success", "outputs": {"name": "é", "value": long}}
    assert (list(stored.body["results"][0].items()), stored.kind) == (list(result.items()), "tool_results")
