"""Agents' mistakes in what they record: nothing is lost, repeated or misassigned, and agents get a report."""

from typing import Any

import pytest

from tests.api.agent import Agent, Received, ask, called, returned
from tests.api.test_problems import assert_problem

LARGE = "2 MB of it. " * (2 * 1024 * 1024 // 12)
CALLS = [
    {"tool_calls": [{"id": "c", "type": "function", "function": {"name": "ls", "arguments": '{"at": "."}'}}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "ls", "input": {"at": "."}}]},
    {"output": [{"type": "function_call", "call_id": "c", "name": "ls", "arguments": '{"at": "."}'}]},
]
"""Raw messages of OpenAI chat, Anthropic and OpenAI responses."""


def unpaired(response: Received) -> list[tuple[int, int, str | None, str, int | None]]:
    assert response.status == 201, response.body
    return [tuple(one.values()) for one in response["unpaired"]]


def read_by_a_model(run: Agent, text: str) -> int:
    """How often a text occurs in a context that leaves nothing out."""
    context = run.get("/contexts?policy=live&format=openai_chat&max_tokens=1000000")
    assert context.status == 200, context.body
    return str(context["request"]).count(text)


def test_an_append_without_unpaired_results_reports_none(run: Agent) -> None:
    response = run.post("/entries", {"entries": [called("a", "b"), returned("b"), returned("a")]})
    assert response.body == {"positions": [1, 2, 3], "head": 3, "unpaired": []}


def test_a_result_of_an_unknown_tool_call_is_stored_and_reported(run: Agent) -> None:
    response = run.post("/entries", {"entries": [called("a"), returned("never", "what never was")]})
    assert unpaired(response) == [(2, 0, "never", "unknown", None)]
    assert run.get("/entries/2")["results"][0]["outputs"] == "what never was"
    assert run.get("/episodes/1")["status"] == "in_flight"
    assert run.get("/episodes/1")["result"] is None
    assert read_by_a_model(run, "what never was") == 1


def test_only_the_first_result_of_an_id_counts(run: Agent) -> None:
    run.append(called("a", "b"), returned("a", "the first"))
    assert unpaired(run.post("/entries", {"entries": [returned("a", "the second")]})) == [
        (3, 0, "a", "answered", 1)
    ]
    run.append(returned("b", "the other"))
    assert [read_by_a_model(run, text) for text in ("the first", "the second", "the other")] == [1, 1, 1]
    assert "the first" in run.get("/episodes/1")["result"]["outputs"]
    assert "the second" not in run.get("/episodes/1")["result"]["outputs"]


def test_a_model_reads_a_repeated_result_once(run: Agent) -> None:
    run.append(called("a"), returned("a", "once only"))
    assert len(unpaired(run.post("/entries", {"entries": [returned("a", "once only")]}))) == 1
    assert [entry["kind"] for entry in run.get("/entries")["items"]].count("tool_results") == 2
    assert read_by_a_model(run, "once only") == 1


def test_a_result_of_an_abandoned_call_does_not_answer_the_next_call(run: Agent) -> None:
    run.append(called("a"), called("b"))
    late = run.post("/entries", {"entries": [returned("a", "too late")]})
    assert unpaired(late) == [(3, 0, "a", "abandoned", 1)]
    assert [run.get(f"/episodes/{step}")["status"] for step in (1, 2)] == ["abandoned", "in_flight"]
    assert run.get("/episodes/2")["result"] is None
    assert read_by_a_model(run, "too late") == 1


def test_a_result_without_an_id_after_the_step_is_reported(run: Agent) -> None:
    result = {"kind": "tool_results", "results": [{"status": "success", "outputs": "more"}]}
    assert unpaired(run.post("/entries", {"entries": [called("a"), returned("a"), result]})) == [
        (3, 0, None, "no_open_call", None)
    ]


def test_a_fork_knows_the_calls_of_its_parent(run: Agent) -> None:
    run.append(called("a"), returned("a"))
    fork = run.post("/forks")["id"]
    child = Agent(None, f"/api/v1/sessions/{fork}")
    child._client = run._client
    assert unpaired(child.post("/entries", {"entries": [returned("a")]})) == [(3, 0, "a", "answered", 1)]


def test_a_repeated_request_gets_the_same_response(run: Agent) -> None:
    run.append(called("a"), returned("a"))
    key = {"Idempotency-Key": "late"}
    first, again = (run.post("/entries", {"entries": [returned("a")]}, key) for _ in range(2))
    assert (again.status, again.body) == (first.status, first.body)
    assert run.get()["head"] == 3


@pytest.mark.parametrize(
    "call", [{"id": "a"}, {"id": "a", "name": None}, {"id": "a", "type": "function", "function": {}}]
)
def test_a_call_without_a_name_is_refused_with_advice(run: Agent, call: dict[str, Any]) -> None:
    refused = run.post("/entries", {"entries": [{"kind": "model_output", "tool_calls": [call]}]})
    assert_problem(refused, 422, "tool_calls[0] has no name. Name the tool")


@pytest.mark.parametrize(
    ("output", "where"),
    [
        ({"tool_calls": [{"id": "a", "name": "x"}, {"id": "b", "name": " "}]}, "tool_calls[1]"),
        ({"use_tool": {"name": ""}}, "use_tool"),
    ],
)
def test_an_empty_name_is_refused_with_advice(run: Agent, output: dict[str, Any], where: str) -> None:
    refused = run.post("/entries", {"entries": [{"kind": "model_output", **output}]})
    assert_problem(refused, 422, f"entries[0].{where} has an empty name. Name the tool")


def test_ids_that_do_not_distinguish_calls_are_refused(run: Agent) -> None:
    for ids in (("a", "a"), ("", "")):
        assert_problem(run.post("/entries", {"entries": [called(*ids)]}), 422, "Give each its own id")
    run.append(called(""), returned("", "the only call"))
    assert run.get("/episodes/1")["result"]["outputs"] == "the only call"


@pytest.mark.parametrize("raw", CALLS)
def test_calls_are_read_from_a_raw_message(run: Agent, raw: dict[str, Any]) -> None:
    run.append({"kind": "model_output", "raw_message": raw})
    entry = run.get("/entries/1")
    assert entry["raw_message"] == raw
    assert entry["tool_calls"] == [{"id": "c", "name": "ls", "arguments": {"at": "."}}]
    assert run.get("/episodes/1")["status"] == "in_flight"
    assert run.succeed("files").status == 201
    assert run.get("/episodes/1")["status"] == "success"


@pytest.mark.parametrize("raw", CALLS)
def test_an_action_has_the_calls_of_every_providers_message(run: Agent, raw: dict[str, Any]) -> None:
    assert run.post("/actions", {"use_tool": {"name": "ls"}, "raw_message": raw}).status == 201
    assert [call["id"] for call in run.get("/entries/1")["tool_calls"]] == ["c"]


def test_calls_in_the_request_override_those_of_the_raw_message(run: Agent) -> None:
    run.append({**called("mine"), "raw_message": CALLS[0]})
    assert [call["id"] for call in run.get("/episodes/1")["tool_calls"]] == ["mine"]


def test_a_thousand_parallel_calls_can_be_answered_in_reverse_order(run: Agent) -> None:
    ids = [f"call_{number}" for number in range(1000)]
    run.append(called(*ids))
    for start in range(0, 1000, 250):
        chunk = ids[::-1][start : start + 250]
        response = run.post("/entries", {"entries": [returned(id, f"<{id}>") for id in chunk]})
        assert unpaired(response) == []
    step = run.get("/episodes/1")
    assert step["status"] == "success"
    request = str(run.get("/contexts?policy=live&format=openai_chat&max_tokens=1000000")["request"])
    assert all(request.count(f"<{id}>") == 1 for id in ids)
    results = request.split("'role': 'tool'")[1:]
    assert all(f"'{id}'" in part and f"<{id}>" in part for id, part in zip(ids, results, strict=True))


def test_empty_texts_are_recorded_and_keep_a_context_valid(run: Agent) -> None:
    run.append(
        {"kind": "system_instruction", "text": ""},
        ask(""),
        {"kind": "model_output", "text": "", "thoughts": ""},
        {**called("a"), "text": ""},
        {
            "kind": "tool_results",
            "overall": "",
            "results": [{"tool_call_id": "a", "status": "error", "reason": ""}],
        },
        {"kind": "model_input", "content": []},
    )
    assert [step["status"] for step in run.get("/episodes")["items"]] == ["answered", "error"]
    for format in ("openai_chat", "openai_responses", "anthropic_messages", "plain"):
        assert run.get(f"/contexts?policy=live&format={format}").status == 200


@pytest.mark.parametrize("image", [{}, {"url": ""}, {"data": None}, {"media_type": "image/png"}])
def test_an_image_without_data_is_refused_and_named(run: Agent, image: dict[str, Any]) -> None:
    content = [{"type": "text", "text": "see"}, {"type": "image", **image}]
    refused = run.post("/entries", {"entries": [ask(), {"kind": "model_input", "content": content}]})
    assert_problem(refused, 422, "entries[1].content[1] is an image without url or data")
    assert run.get()["head"] == 0


def test_texts_of_2_mb_are_returned_completely(run: Agent) -> None:
    run.append(ask(LARGE), {"kind": "model_output", "thoughts": {"plan": LARGE}, "text": LARGE})
    run.act()
    assert run.succeed(LARGE).status == 201
    assert run.get("/entries/1")["content"] == LARGE
    assert run.get("/entries/2")["thoughts"] == {"plan": LARGE}
    assert run.get("/episodes/2")["result"]["outputs"] == LARGE
    first, second = run.get("/episodes")["items"]
    assert len(first["thought_preview"]) == len(second["result_preview"]) == 200


def test_a_late_result_does_not_read_long_outputs(run: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read within the transaction of the append."""
    monkeypatch.setattr("historyapp.models.unpaired.MAX_BYTES", 4_000)
    long = called("a") | {"text": "one word " * 2_000}
    run.post("/entries", {"entries": [long, returned("a"), called("b"), returned("b")]})
    assert unpaired(run.post("/entries", {"entries": [returned("a")]})) == [(5, 0, "a", "unknown", None)]
    assert unpaired(run.post("/entries", {"entries": [returned("b")]})) == [(6, 0, "b", "answered", 2)]


def test_a_list_whose_items_are_wrong_is_not_called_too_short(run: Agent) -> None:
    wrong = {**called("a"), "results": []}
    step = {"output": wrong, "results": [{"status": "success", "result": "x"}]}
    response = run.post("/steps", step)
    assert response.status == 422
    assert "at least 1 items" not in str(response.body)
    entries = run.post("/entries", {"entries": [{"kind": "tool_results", "results": [{"statu": "success"}]}]})
    assert entries.status == 422
    assert "at least 1 items" not in str(entries.body), entries.body
    empty = run.post("/entries", {"entries": [{"kind": "tool_results", "results": []}]})
    assert "at least 1 items" in str(empty.body)
