import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import Append, Operation
from historyapp.core.importers.openhands import OPENHANDS
from tests.core.importers.reading import (
    inputs,
    kinds,
    lines,
    logs,
    metadata,
    outputs,
    read,
    results,
    skipped,
    starts,
)
from tests.core.importers.samples import CALL, OPENHANDS_V1, OUTPUT_ROW, event

TASK = {"source": "user", "action": "message", "args": {"content": "Rename it"}}


def answer(id: str, *calls: str) -> dict[str, Any]:
    """A response of the model with calls of these ids."""
    message = {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [{**CALL, "id": call} for call in calls],
    }
    return {"id": id, "model": "claude", "usage": {"prompt_tokens": 9}, "choices": [{"message": message}]}


def acts(call: str, response: dict[str, Any], **fields: Any) -> dict[str, Any]:
    call_metadata = {"function_name": "look", "tool_call_id": call, "model_response": response}
    return {
        "source": "agent",
        "action": "read",
        "args": {"thought": "I look."},
        "tool_call_metadata": call_metadata,
        **fields,
    }


def came_back(call: str, response: dict[str, Any], text: str = "here", **fields: Any) -> dict[str, Any]:
    call_metadata = {"function_name": "look", "tool_call_id": call, "model_response": response}
    return {
        "observation": "read",
        "content": text,
        "extras": {},
        "tool_call_metadata": call_metadata,
        **fields,
    }


class TestV0:
    def test_a_condensation_names_the_events_that_the_model_no_longer_saw(self) -> None:
        def condensed(**args: Any) -> dict[str, Any]:
            return {"id": 9, "action": "condensation", "source": "agent", "args": args}

        by_range = condensed(forgotten_events_start_id=2, forgotten_events_end_id=5, summary="Done so far.")
        by_id = condensed(forgotten_event_ids=[2, 4], summary=None)
        operations = read(OPENHANDS, [TASK, by_range, {**by_id, "id": 10}])
        assert logs(operations)[-2].message == "Done so far."
        assert [facts["source"].get("condensed") for facts in metadata(operations)[-2:]] == [
            {"first": 2, "last": 5, "summarised": True},
            {"forgotten": [2, 4]},
        ]

    def test_parallel_calls_are_one_answer_of_the_model(self) -> None:
        both = answer("r1", "a", "b")
        events = [TASK, acts("a", both), came_back("a", both), acts("b", both), came_back("b", both, "there")]
        operations = read(OPENHANDS, [*events, acts("c", answer("r2", "c"))])
        assert kinds(operations) == [
            "model_input",
            "model_output",
            "tool_results",
            "tool_results",
            "model_output",
        ]
        assert [call.id for call in outputs(operations)[0].tool_calls] == ["a", "b"]
        assert [(r.tool_call_id, r.tool_name, r.outputs) for r in results(operations)] == [
            ("a", "look", "here"),
            ("b", "look", "there"),
        ]

    def test_usage_is_read_once_for_an_answer(self) -> None:
        both = answer("r1", "a", "b")
        entry_metadata = metadata(
            read(OPENHANDS, [TASK, acts("a", both), came_back("a", both), acts("b", both)])
        )
        assert [entry.get("usage") for entry in entry_metadata] == [None, {"prompt_tokens": 9}, None]
        assert entry_metadata[1]["source"]["response_id"] == "r1"

    def test_an_agent_without_tool_calls_acts_by_name(self) -> None:
        runs = {
            "source": "agent",
            "action": "run",
            "args": {"command": "ls", "thought": "I list.", "hidden": False},
        }
        back = {"observation": "run", "content": "a", "extras": {}, "cause": 3}
        operations = read(OPENHANDS, [TASK, runs, back, {"source": "agent", "action": "finish", "args": {}}])
        output = outputs(operations)[0]
        assert output.use_tool
        assert (output.use_tool.name, output.use_tool.arguments) == ("run", {"command": "ls"})
        assert output.thoughts == "I list."
        assert [(r.tool_call_id, r.tool_name, r.outputs) for r in results(operations)] == [(None, "run", "a")]

    @pytest.mark.parametrize(
        ("fields", "status"),
        [
            ({}, "success"),
            ({"extras": {"metadata": {"exit_code": 0}}, "success": True}, "success"),
            ({"extras": {"metadata": {"exit_code": 1}}}, "error"),
            ({"extras": {"exit_code": 2}}, "error"),
            ({"success": False}, "error"),
            ({"observation": "error"}, "error"),
            ({"observation": "user_rejected"}, "interrupted_by_human"),
        ],
    )
    def test_an_observation_has_the_status_of_its_action(self, fields: dict[str, Any], status: str) -> None:
        response = answer("r", "a")
        [result] = results(read(OPENHANDS, [TASK, acts("a", response), came_back("a", response, **fields)]))
        assert result.status == status
        assert "here" in (result.outputs, result.reason, result.feedback)

    def test_an_empty_observation_is_not_replaced_by_the_message_for_people(self) -> None:
        response = answer("r", "a")
        back = came_back("a", response, "", message="Command executed.")
        assert [r.outputs for r in results(read(OPENHANDS, [TASK, acts("a", response), back]))] == [""]

    def test_events_about_the_agent_are_logged(self) -> None:
        events = [
            {
                "source": "environment",
                "observation": "agent_state_changed",
                "content": "",
                "extras": {"state": "x"},
            },
            {"source": "user", "action": "recall", "args": {"query": "q"}, "message": "Retrieving"},
        ]
        operations = read(OPENHANDS, [TASK, *events])
        assert [log.category for log in logs(operations)] == ["agent_state_changed", "recall"]
        assert [log.message for log in logs(operations)] == ['{"state":"x"}', "Retrieving"]

    def test_times_are_converted_to_utc_by_the_times_of_model_responses(self) -> None:
        response = answer("r", "a") | {"created": 1738046713}
        events = [
            {**TASK, "timestamp": "2025-01-27T22:44:56.900854"},
            acts("a", response, timestamp="2025-01-27T22:45:13.764487"),
        ]
        first = read(OPENHANDS, events)[1]
        assert isinstance(first, Append)
        assert first.draft.created_at == datetime(2025, 1, 28, 6, 44, 56, 900854, UTC)
        assert first.draft.metadata["source"]["timestamp"] == "2025-01-27T22:44:56.900854"

    def test_events_of_the_earliest_versions_are_read(self) -> None:
        history = [
            {"action": "message", "content": "Add a license"},
            {"action": "run", "command": "touch LICENSE", "thought": "I create it."},
            {"observation": "run", "content": "$", "command": "touch LICENSE", "exit_code": 0},
            {"action": "message", "content": "It is there."},
        ]
        operations = read(OPENHANDS, lines({"issue": {"number": 5}, "history": history}, {"history": []}))
        assert kinds(operations) == ["model_input", "model_output", "tool_results", "model_output"]
        first = outputs(operations)[0].use_tool
        assert first
        assert first.arguments == {"command": "touch LICENSE"}
        assert starts(operations)[0].title == "Add a license"

    def test_pairs_of_action_and_observation_are_read(self) -> None:
        runs = {"source": "agent", "action": "run", "args": {"command": "ls"}}
        pairs = [[TASK, {}], [runs, {"observation": "run", "content": "a", "extras": {}}]]
        operations = read(OPENHANDS, {"instance_id": "x", "history": pairs})
        assert [r.outputs for r in results(operations)] == ["a"]


class TestV1:
    def test_actions_of_one_answer_are_parallel_calls(self) -> None:
        def action(id: str, response: str) -> dict[str, Any]:
            call = {"id": id, "name": "look", "arguments": "{}"}
            return event("ActionEvent", "agent", tool_call=call, llm_response_id=response, thought=[])

        events = [action("a", "r1"), action("b", "r1"), action("c", "r2")]
        operations = read(OPENHANDS, lines(*events))
        assert [[call.id for call in output.tool_calls] for output in outputs(operations)] == [
            ["a", "b"],
            ["c"],
        ]
        assert [isinstance(op, Append) and op.provisional for op in operations] == [False, False, True]

    def test_each_kind_of_event_becomes_its_entry(self) -> None:
        operations = read(OPENHANDS, lines(*OPENHANDS_V1), "events.jsonl")
        assert kinds(operations) == [
            "debug_log", "system_instruction", "model_input", "model_output", "tool_results", "tool_results",
            "tool_results", "debug_log", "model_output",
        ]  # fmt: skip
        assert [(r.status, r.reason or r.feedback) for r in results(operations)] == [
            ("error", "no"),
            ("error", "bad"),
            ("interrupted_by_human", "no"),
        ]
        assert logs(operations)[-1].message == "it went well"
        [start] = starts(operations)
        assert (start.session, start.title, start.model) == ("conversation", "hi", "m")

    def test_reasoning_repeated_in_the_text_is_read_once(self) -> None:
        output = outputs(read(OPENHANDS, lines(*OPENHANDS_V1)))[0]
        assert (output.thoughts, output.text) == ("hm", "I look.")
        assert output.reasoning == [{"type": "thinking", "thinking": "hm", "signature": "s"}]

    def test_usage_is_the_growth_of_the_totals(self) -> None:
        def totals(prompt: int, cost: float) -> dict[str, Any]:
            usage = {"accumulated_token_usage": {"prompt_tokens": prompt}, "accumulated_cost": cost}
            value = {"usage_to_metrics": {"default": usage, "condenser": usage}}
            return event("ConversationStateUpdateEvent", "environment", key="stats", value=value)

        def says(text: str) -> dict[str, Any]:
            message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
            return event("MessageEvent", "agent", llm_message=message)

        entry_metadata = metadata(
            read(OPENHANDS, lines(totals(10, 0.5), says("a"), totals(15, 0.75), says("b"), says("c")))
        )
        assert [entry.get("usage", {}).get("prompt_tokens") for entry in entry_metadata] == [10, 5, None]
        assert [entry.get("cost") for entry in entry_metadata] == [0.5, 0.25, None]

    @pytest.mark.parametrize("total", [1e308, -1e308, 10**400], ids=["huge", "negative", "400 digits"])
    def test_totals_without_an_end_are_left_out(self, total: float) -> None:
        usage = {"accumulated_token_usage": {"prompt_tokens": total}, "accumulated_cost": 0.5}
        value = {"usage_to_metrics": {"a": usage, "b": usage, "c": {"accumulated_cost": total}}}
        stats = event("ConversationStateUpdateEvent", "environment", key="stats", value=value)
        [said, *_] = metadata(read(OPENHANDS, lines(stats, *OPENHANDS_V1[-1:])))
        assert (said["cost"], said["usage"]["prompt_tokens"]) == (1.0, 0)

    def test_a_condensation_names_the_events_that_the_model_no_longer_saw(self) -> None:
        condensed = event(
            "Condensation", "environment", forgotten_event_ids=["a", "b"], summary="Done so far."
        )
        operations = read(OPENHANDS, lines(*OPENHANDS_V1, condensed))
        assert logs(operations)[-1].message == "Done so far."
        assert metadata(operations)[-1]["source"]["condensed"] == {
            "forgotten": ["a", "b"],
            "summarised": True,
        }

    def test_a_result_whose_action_is_missing_is_kept(self) -> None:
        observation = {"content": [{"type": "text", "text": "late"}], "is_error": False}
        lost = event(
            "ObservationEvent", "environment", tool_name="t", tool_call_id="gone", observation=observation
        )
        [result] = results(read(OPENHANDS, lines(lost, lost | {"id": "f"}))[:2])
        assert (result.tool_call_id, result.tool_name, result.outputs) == ("gone", "t", "late")

    def test_text_that_a_skill_adds_to_a_message_belongs_to_it(self) -> None:
        task = event(
            "MessageEvent",
            "user",
            llm_message={"role": "user", "content": [{"type": "text", "text": "hi"}]},
            extended_content=[{"type": "text", "text": "a rule"}],
        )
        assert [part["text"] for part in inputs(read(OPENHANDS, lines(task)))[0].content] == ["hi", "a rule"]

    def test_the_state_of_a_conversation_holds_no_history(self) -> None:
        [item] = skipped(
            read(OPENHANDS, {"id": "c", "agent": {}, "workspace": {}, "execution_status": "idle"})
        )
        assert not item.damaged


class TestFolderOfEvents:
    """On disk, each event is a file of its own."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "conversation-7" / "events"
        folder.mkdir(parents=True)
        (folder / "2.json").write_text(json.dumps(acts("a", answer("r", "a"))))
        (folder / "10.json").write_text(json.dumps(came_back("a", answer("r", "a"))))
        (folder / "0.json").write_text(json.dumps(TASK))
        (folder / "11.json").write_text("{torn")
        return folder

    def import_file(self, folder: Path, name: str) -> list[Operation]:
        return read(OPENHANDS, (folder / name).read_text(), name, str(folder))

    def test_the_first_event_file_is_read_with_all_others_in_the_order_of_their_numbers(
        self, folder: Path
    ) -> None:
        operations = self.import_file(folder, "0.json")
        assert kinds(operations) == ["model_input", "model_output", "tool_results"]
        assert [start.session for start in starts(operations)] == ["conversation-7"]
        assert "11.json" in skipped(operations)[0].reason

    def test_other_event_files_refer_to_the_first(self, folder: Path) -> None:
        [item] = self.import_file(folder, "2.json")
        assert item == skipped([item])[0]
        assert (item.damaged, "0.json" in item.reason) == (False, True)

    def test_a_single_event_is_a_session(self) -> None:
        assert kinds(read(OPENHANDS, TASK, "0.json")) == ["model_input"]


class TestRowsOfAnEvaluation:
    def test_each_row_is_a_session_named_by_its_instance(self) -> None:
        operations = read(
            OPENHANDS, lines(OUTPUT_ROW, {**OUTPUT_ROW, "instance_id": "x-2"}, OUTPUT_ROW), "out.jsonl"
        )
        assert [start.session for start in starts(operations)] == [
            "out.jsonl#x-1",
            "out.jsonl#x-2",
            "out.jsonl#3",
        ]
        first = starts(operations)[0]
        assert (first.title, first.agent, first.model) == ("Fix it", "CodeActAgent", "m")
        assert logs(operations)[-1].message == "stuck"

    def test_a_broken_event_is_named_by_its_row(self) -> None:
        row = {**OUTPUT_ROW, "history": [*OUTPUT_ROW["history"], 7]}
        assert [item.line for item in skipped(read(OPENHANDS, lines(OUTPUT_ROW, row)))] == [2]


def test_a_broken_event_is_named_and_the_others_are_read() -> None:
    operations = read(OPENHANDS, [TASK, None, TASK])
    assert [item.line for item in skipped(operations)] == [2]
    assert kinds(operations) == ["model_input", "model_input"]


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(UnreadableTranscript):
        read(OPENHANDS, [])
