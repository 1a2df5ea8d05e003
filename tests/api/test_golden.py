"""Every recorded operation of the earlier episodic history gives the same result over HTTP."""

from typing import Any

import pytest

from tests import golden
from tests.api.agent import Agent, Received
from tests.shared import needs

pytestmark = needs(golden.PATH)


@pytest.mark.parametrize("case", golden.cases(every=12))
def test_the_api_answers_as_the_earlier_history_did(case: dict[str, Any], alice: Agent) -> None:
    settings = {"max_tokens": None, "full_message_count": case["config"]["full_message_count"]}
    session = alice.post("/sessions", {"settings": settings})
    run = alice.within(f"/sessions/{session['id']}")
    refused = []
    for index, operation in enumerate(case["ops"]):
        response = carry_out(run, operation)
        if response.status == 409:
            refused.append({"op_index": index, "message": response["detail"]})
        else:
            assert response.status == 201, response.body
    seen = observed(run)
    expected = case["expected"]
    if seen["n_episodes"]:
        assert run.get("/episodes/-1")["formatted"] == expected["episode_formats"][-1]
    errors = [{name: error[name] for name in ("op_index", "message")} for error in expected["errors"]]
    for key in set(case["compare"]) - {"compile_progress", "errors"}:
        assert seen[key] == expected[key], key
    assert refused == errors


def carry_out(run: Agent, operation: dict[str, Any]) -> Received:
    match operation["op"]:
        case "register_action":
            return run.post("/actions", operation["action"])
        case "register_result":
            return run.post("/results", operation["result"])
        case "rewind":
            return run.post("/rewinds", {"episodes": operation["n"]})
        case "set_summary":
            index = operation["index"]
            step = index + 1 if index >= 0 else index
            return run.post("/summaries", {"from_step": step, "to_step": step, "text": operation["summary"]})
    raise AssertionError(operation["op"])


def observed(run: Agent) -> dict[str, Any]:
    steps = run.get("/episodes?full=true&limit=500")["items"]
    in_flight = bool(steps) and steps[-1]["status"] == "in_flight"
    return {
        "n_episodes": run.get()["steps"],
        "cursor": len(steps) - in_flight,
        "has_current_episode": in_flight,
        "fmt_list": run.get("/progress?style=list")["text"],
        "fmt_paragraph": run.get("/progress?style=paragraph")["text"],
        "episode_formats": [step["formatted"] for step in steps],
        "summaries": [step["summary"] for step in steps],
        "messages_unlimited": run.get("/messages")["messages"],
    }
