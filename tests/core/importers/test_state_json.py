from typing import Any

import pytest

from historyapp.core.entries import ErrorDetails, Thoughts
from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import AddSummary, Append, RewindTo
from historyapp.core.importers.state_json import STATE_JSON
from tests.core.importers.reading import inputs, kinds, outputs, read, results, skipped, starts
from tests.core.importers.samples import CALL, STATE


def action(name: str = "ls", thoughts: Any = "I list.", **fields: Any) -> dict[str, Any]:
    return {"thoughts": thoughts, "use_tool": {"name": name, "arguments": {"at": "."}}, **fields}


def episode(result: Any = None, summary: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"action": action(**fields), "result": result, "summary": summary}


def done(outputs: Any = "a") -> dict[str, Any]:
    return {"outputs": outputs, "status": "success"}


def state(*episodes: Any, cursor: Any = None, **fields: Any) -> list[Any]:
    history = {"episodes": list(episodes), "cursor": len(episodes) if cursor is None else cursor}
    return read(
        STATE_JSON, {"task": "Fix it", "history": {**history, **fields}}, "state.json", "agents/helper"
    )


def test_an_episode_is_an_output_and_a_result_for_the_whole_action() -> None:
    operations = state(episode(done(["a", 1])), episode())
    assert kinds(operations) == ["model_input", "model_output", "tool_results", "model_output"]
    [first, _] = outputs(operations)
    assert first.use_tool
    assert (first.thoughts, first.use_tool.name, first.use_tool.arguments) == ("I list.", "ls", {"at": "."})
    assert [(r.tool_call_id, r.tool_name, r.outputs) for r in results(operations)] == [(None, "ls", ["a", 1])]


def test_structured_thoughts_are_kept_with_their_text_as_summary() -> None:
    thoughts = {"observations": "o", "text": "I list.", "plan": ["p"]}
    [output] = outputs(state(episode(done(), thoughts=thoughts)))
    assert output.thoughts == Thoughts.model_validate({**thoughts, "summary": "I list."})


def test_the_raw_message_is_kept_and_gives_the_calls() -> None:
    raw = {"role": "assistant", "content": "said", "tool_calls": [CALL]}
    [output] = outputs(state(episode(done(), raw_message=raw)))
    assert (output.raw_message, output.text) == (raw, "said")
    assert [(call.id, call.name, call.arguments) for call in output.tool_calls] == [("a", "look", {"at": 1})]


def test_several_tools_without_a_raw_message_are_calls() -> None:
    several = [{"name": "a", "arguments": {}}, {"name": "b", "arguments": {}}]
    [output] = outputs(state(episode(done(), use_tools=several)))
    assert [(call.id, call.name) for call in output.tool_calls] == [
        ("helper/state.json-1-1", "a"),
        ("helper/state.json-1-2", "b"),
    ]


def test_an_error_keeps_its_details() -> None:
    error = {"args": ["x"], "message": "m", "exception_type": "E", "repr": "E('x')"}
    [known, odd] = results(
        state(
            episode({"status": "error", "reason": "no", "error": error}),
            episode({"status": "error", "reason": "no", "error": {"message": 7}}),
        )
    )
    assert (known.status, known.reason, known.error) == ("error", "no", ErrorDetails.model_validate(error))
    assert odd.error
    assert odd.error.repr == '{"message":7}'


def test_an_interruption_keeps_its_feedback() -> None:
    [result] = results(state(episode({"status": "interrupted_by_human", "feedback": "stop"})))
    assert (result.status, result.feedback) == ("interrupted_by_human", "stop")


def test_a_summary_covers_the_positions_of_its_episode() -> None:
    operations = state(episode(done(), "listed"), episode(done(), ""), episode(done()))
    summaries = [op for op in operations if isinstance(op, AddSummary)]
    assert [(op.first_position, op.last_position, op.text) for op in summaries] == [
        (2, 3, "listed"),
        (4, 5, ""),
    ]
    assert {op.strategy for op in summaries} == {"episode_summary"}


def test_an_episode_in_flight_at_the_cursor_is_live() -> None:
    assert not [op for op in state(episode(done()), episode(), cursor=1) if isinstance(op, RewindTo)]


def test_episodes_beyond_the_cursor_are_a_take() -> None:
    operations = state(episode(done()), episode(done()), episode(done()), cursor=1)
    assert [op.to_position for op in operations if isinstance(op, RewindTo)] == [3]
    assert len(results(operations)) == 3


def test_pending_feedback_is_the_newest_input_until_the_agent_reads_it() -> None:
    operations = state(episode(done()), pending_user_feedback=["hurry"])
    assert [message.content for message in inputs(operations)] == ["Fix it", "hurry"]
    assert [isinstance(op, Append) and op.provisional for op in operations[-2:]] == [False, True]


def test_a_session_is_named_after_its_agent_or_else_its_folder() -> None:
    [start] = starts(read(STATE_JSON, STATE, "state.json"))
    assert (start.session, start.title, start.agent) == ("Helper-1", "Fix it", "Helper")
    assert starts(state(episode(done())))[0].session == "helper/state.json"


def test_the_file_can_contain_only_the_history() -> None:
    assert kinds(read(STATE_JSON, STATE["history"])) == kinds(read(STATE_JSON, STATE))[1:]


def test_broken_episodes_are_named_and_the_others_are_read() -> None:
    operations = state(7, {"action": None}, episode("odd"), episode(done()))
    assert [item.line for item in skipped(operations)] == [1, 2, 3]
    assert kinds(operations) == ["model_input", "model_output", "model_output", "tool_results"]


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(UnreadableTranscript):
        read(STATE_JSON, {"history": {"episodes": [], "cursor": 0}})
