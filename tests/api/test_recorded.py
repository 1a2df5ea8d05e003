"""What the model saw before a step, over HTTP: its tokens, what was new, and its messages in pages."""

import json
from typing import Any

import pytest

from tests.api.agent import Agent, ask, called, returned
from tests.api.test_problems import assert_problem


def reported(sent: int) -> dict[str, Any]:
    return {"model": "gpt-5", "usage": {"input_tokens": sent, "output_tokens": 20}}


@pytest.fixture
def two(run: Agent) -> Agent:
    cached = {"input_tokens_details": {"cached_tokens": 12_000}}
    run.append({"kind": "system_instruction", "text": "You repair code."}, ask("find it"))
    run.append({**called("call_1"), "metadata": reported(12_400)}, returned("call_1", "line\n" * 20))
    run.append(
        {**called("call_2"), "metadata": reported(12_490) | {"usage": reported(12_490)["usage"] | cached}}
    )
    return run


def request_of(run: Agent, step: int, query: str = "") -> Any:
    response = run.get(f"/episodes/{step}/request{query}")
    assert response.status == 200, response.body
    return response.body


def test_a_request_has_its_parts_and_billed_tokens(two: Agent) -> None:
    recorded = request_of(two, -1)
    assert (recorded["step"], recorded["position"], recorded["source"]) == (2, 5, "log")
    assert recorded["tokens"]["billed"] == {
        "input": 12_490, "uncached": 490, "cache_read": 12_000, "cache_write": 0, "output": 20,
    }  # fmt: skip
    parts = {each["part"]: each["tokens"] for each in recorded["tokens"]["parts"]}
    assert set(parts) == {"unseen", "instruction", "person", "results", "assistant"}
    assert sum(parts.values()) == recorded["tokens"]["expected"] == 12_490 - recorded["tokens"]["difference"]
    assert recorded["tokens"]["cost"] > 0


def test_new_parts_and_the_first_difference_are_reported(two: Agent) -> None:
    assert request_of(two, 1)["changes"] is None
    changes = request_of(two, 2)["changes"]
    assert (changes["place"], changes["first_byte"], changes["new_positions"]) == ("end", None, [3, 4])
    assert changes["shared_tokens"] == 12_400
    assert changes["missed_tokens"] == 12_288 - 12_000


def test_messages_are_paginated(two: Agent) -> None:
    whole = request_of(two, 2)
    assert [each["role"] for each in whole["messages"]] == ["system", "user", "assistant", "tool"]
    assert whole["messages"][1]["content"] == {"kind": "model_input", "content": "find it"}
    assert (whole["total"], whole["next"]) == (4, None)
    first = request_of(two, 2, "?limit=3")
    second = request_of(two, 2, f"?limit=3&cursor={first['next']}")
    assert first["messages"] + second["messages"] == whole["messages"]
    assert second["next"] is None


def test_a_cursor_of_another_list_is_refused(two: Agent) -> None:
    cursor = two.get("/entries?limit=1")["next"]
    assert_problem(two.get(f"/episodes/2/request?cursor={cursor}"), 422, "belongs to another list")


def test_a_request_of_a_take_is_read_as_of_the_take(two: Agent) -> None:
    two.append(returned("call_2"))
    two.post("/rewinds", {"to_step": 1})
    two.append(ask("another way"), called("call_3"))
    assert request_of(two, 2)["total"] == 5
    assert request_of(two, 2, "?as_of=6")["total"] == 4


def test_a_served_context_is_the_request_with_its_hash(run: Agent) -> None:
    run.append(ask("find it"))
    served = run.post("/contexts", {"format": "openai_chat", "model": "gpt-5"})
    run.append({**called("call_1"), "metadata": {"snapshot": served["snapshot"], **reported(30)}})
    recorded = request_of(run, 1)
    assert (recorded["source"], recorded["snapshot"], recorded["sha256"]) == (
        "snapshot", served["snapshot"], served["sha256"],
    )  # fmt: skip
    assert recorded["messages"] == [{"role": "user", "position": None, "step": None, "tokens": None,
                                  "content": served["request"]["messages"][0]}]  # fmt: skip


@pytest.mark.parametrize(
    ("format", "fixed"),
    [
        ("openai_chat", ["tools"]),
        ("openai_responses", ["tools", "instructions"]),
        ("anthropic_messages", ["tools", "system"]),
        ("plain", []),
    ],
)
def test_a_served_request_shows_its_tools_and_its_instruction_in_every_format(
    run: Agent, format: str, fixed: list[str]
) -> None:
    run.append({"kind": "system_instruction", "text": "Be brief."}, ask("find it"))
    tool = {"name": "ls", "input_schema": {"type": "object"}}
    served = run.post("/contexts", {"format": format, "tools": [tool]})
    run.append({**called("call_1"), "metadata": {"snapshot": served["snapshot"]}})
    messages = request_of(run, 1)["messages"]
    shown, items = messages[: len(fixed)], messages[len(fixed) :]
    assert [message["role"] for message in shown] == ["system"] * len(fixed)
    assert [message["content"] for message in shown] == [{name: served["request"][name]} for name in fixed]
    assert "find it" in json.dumps(items[-1]["content"])
    assert items[-1]["role"] == "user"


def test_the_request_of_a_missing_step_is_a_404(two: Agent) -> None:
    assert_problem(two.get("/episodes/3/request"), 404, "There is no step 3")
    assert_problem(two.get("/episodes/0/request"), 404, "There is no step 0")


def test_a_stranger_gets_404(two: Agent, charlie: Agent, session_id: str) -> None:
    assert charlie.get(f"/sessions/{session_id}/episodes/1/request").status == 404
