import json
from typing import Any

import pytest

from historyapp.core.entries import SystemInstruction
from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.openai_chat import OPENAI_CHAT
from tests.core.importers.reading import (
    bodies,
    inputs,
    kinds,
    lines,
    logs,
    metadata,
    outputs,
    read,
    read_path,
    results,
    skipped,
    starts,
)
from tests.shared import SHARED, needs


def tool_call(id: str | None, name: str = "look", arguments: Any = '{"at": 1}') -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def asks(text: Any = "Where is it?") -> dict[str, Any]:
    return {"role": "user", "content": text}


def says(text: Any = None, *calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, **fields}
    return {**message, "tool_calls": list(calls)} if calls else message


def tool_result(id: str | None, content: Any = "here", **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content, **fields}


def completion(message: dict[str, Any], **fields: Any) -> dict[str, Any]:
    response = {"id": "chatcmpl-1", "model": "gpt-4o", "created": 1742842885, "usage": {"prompt_tokens": 7}}
    return {**response, "choices": [{"message": message, "finish_reason": "stop"}], **fields}


def recorded(messages: list[Any], response: Any) -> dict[str, Any]:
    request = {"model": "gpt-4o", "messages": messages}
    return {"uri": "x", "request": request, "status": {"code": 200}, "response": response}


CHAT = [
    {"role": "system", "content": "Be brief."},
    asks(),
    says("I look.", tool_call("a"), tool_call("b", "find")),
    tool_result("a"),
    tool_result("b", "there", name="find"),
    says("It is here."),
]


def test_messages_become_entries_in_their_order() -> None:
    operations = read(OPENAI_CHAT, CHAT)
    assert kinds(operations) == [
        "system_instruction", "model_input", "model_output", "tool_results", "tool_results", "model_output",
    ]  # fmt: skip
    [looks, answer] = outputs(operations)
    assert [(c.id, c.name, c.arguments) for c in looks.tool_calls] == [
        ("a", "look", {"at": 1}),
        ("b", "find", {"at": 1}),
    ]
    assert (looks.text, answer.text, answer.tool_calls) == ("I look.", "It is here.", ())
    assert [(r.tool_call_id, r.tool_name, r.outputs) for r in results(operations)] == [
        ("a", "look", "here"),
        ("b", "find", "there"),
    ]


def test_each_entry_has_its_place_in_the_file() -> None:
    assert [m["source"].get("index") for m in metadata(read(OPENAI_CHAT, CHAT))] == [None, 2, 3, 4, 5, 6]


def test_the_file_names_the_session_and_the_first_question_titles_it() -> None:
    [start] = starts(read(OPENAI_CHAT, CHAT, "folder/chat.json"))
    assert (start.session, start.title) == ("chat.json", "Where is it?")


def test_leading_instructions_are_joined_and_later_ones_do_not_replace_them() -> None:
    chat = [{"role": "system", "content": "A"}, {"role": "developer", "content": "B"}, asks(), says("c")]
    operations = read(OPENAI_CHAT, [*chat, {"role": "system", "content": "D"}])
    assert kinds(operations) == ["system_instruction", "model_input", "model_output", "model_input"]
    assert bodies(operations)[0] == SystemInstruction(text="A\n\nB")
    assert inputs(operations)[-1].channel == "system"


def test_a_call_without_an_id_gets_one_and_is_paired_with_its_result() -> None:
    operations = read(
        OPENAI_CHAT,
        [asks(), says(None, tool_call(None), tool_call("")), tool_result(None, "1"), tool_result("", "2")],
    )
    assert [c.id for c in outputs(operations)[0].tool_calls] == ["run.json-1-1", "run.json-1-2"]
    assert [(r.tool_call_id, r.outputs) for r in results(operations)] == [
        ("run.json-1-1", "1"),
        ("run.json-1-2", "2"),
    ]


def test_a_repeated_id_in_one_output_is_made_unique_and_the_original_is_kept() -> None:
    operations = read(
        OPENAI_CHAT,
        [asks(), says(None, tool_call("a"), tool_call("a")), tool_result("a", "1"), tool_result("a", "2")],
    )
    assert [c.id for c in outputs(operations)[0].tool_calls] == ["a", "run.json-1-2"]
    assert [r.tool_call_id for r in results(operations)] == ["a", "run.json-1-2"]
    assert metadata(operations)[1]["source"]["call_ids"] == {"run.json-1-2": "a"}


def test_an_id_that_occurs_again_later_stays_and_results_go_to_the_newest_call() -> None:
    chat = [asks(), says(None, tool_call("a", "old")), says(None, tool_call("a", "new")), tool_result("a")]
    assert [(r.tool_call_id, r.tool_name) for r in results(read(OPENAI_CHAT, chat))] == [("a", "new")]


def test_a_result_of_an_unknown_call_is_kept() -> None:
    operations = read(OPENAI_CHAT, [tool_result("gone", "late"), asks()])
    assert [(r.tool_call_id, r.outputs) for r in results(operations)] == [("gone", "late")]


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        ("", {}),
        (None, {}),
        ({"a": 1}, {"a": 1}),
        ("not json", "not json"),
        ("[1]", "[1]"),
        ('{"a": NaN}', '{"a": NaN}'),
    ],
)
def test_arguments_are_an_object_or_the_unchanged_text(raw: Any, arguments: Any) -> None:
    [output] = outputs(read(OPENAI_CHAT, [asks(), says(None, tool_call("a", arguments=raw))]))
    assert output.tool_calls[0].arguments == arguments


def test_the_old_function_call_is_a_call() -> None:
    old = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}}
    operations = read(OPENAI_CHAT, [asks(), old, {"role": "function", "name": "look", "content": "here"}])
    assert outputs(operations)[0].tool_calls[0].name == "look"
    assert results(operations)[0].tool_call_id == "run.json-1-1"


def test_reasoning_becomes_thoughts_and_its_blocks_are_unchanged() -> None:
    details = [{"type": "reasoning.encrypted", "data": "abc"}]
    [output] = outputs(
        read(OPENAI_CHAT, [asks(), says("x", reasoning_content="hm", reasoning_details=details)])
    )
    assert (output.thoughts, output.reasoning) == ("hm", details)


def test_what_the_neutral_fields_cannot_hold_stays_in_the_raw_message() -> None:
    plain, odd = says("a"), says(None, refusal="no")
    first, second = outputs(read(OPENAI_CHAT, [asks(), plain, odd]))
    assert first.raw_message is None
    assert (second.text, second.raw_message) == ("no", odd)


def test_content_of_several_parts_is_neutral() -> None:
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
    ]
    [user_input] = inputs(read(OPENAI_CHAT, [asks(parts), says("a")]))
    assert user_input.content == [
        {"type": "text", "text": "see"},
        {"type": "image", "media_type": "image/png", "data": "AAAA"},
        {"type": "image", "url": "https://x.test/a.png"},
    ]


def test_content_in_one_text_part_is_text() -> None:
    operations = read(OPENAI_CHAT, [asks([{"type": "text", "text": "hi"}]), says([]), tool_result(None, [])])
    assert (inputs(operations)[0].content, outputs(operations)[0].text) == ("hi", "")


def test_a_call_written_as_text_is_an_action_and_the_next_user_message_its_result() -> None:
    written = "I list.\n\n<function=bash>\n<parameter=command>\nls\n</parameter>\n</function"
    operations = read(
        OPENAI_CHAT, [asks(), says(written), asks("EXECUTION RESULT of [bash]:\na"), says("Done.")]
    )
    assert kinds(operations) == ["model_input", "model_output", "tool_results", "model_output"]
    [acts, _] = outputs(operations)
    assert acts.use_tool
    assert (acts.use_tool.name, acts.use_tool.arguments) == ("bash", {"command": "ls"})
    assert acts.thoughts == "I list."
    assert acts.raw_message == {"role": "assistant", "content": written}
    assert [(r.tool_call_id, r.tool_name) for r in results(operations)] == [(None, "bash")]


def test_a_log_of_a_call_ends_with_its_response_and_its_cost() -> None:
    log = {
        "messages": CHAT[:2],
        "response": completion(says("Here.")),
        "cost": 0.25,
        "timestamp": 1757015033.5,
    }
    operations = read(OPENAI_CHAT, log)
    entry_metadata = metadata(operations)[-1]
    assert (entry_metadata["usage"], entry_metadata["usage_convention"], entry_metadata["cost"]) == (
        {"prompt_tokens": 7},
        "openai",
        0.25,
    )
    assert starts(operations)[0].model == "gpt-4o"
    assert "2025-09-04 19:43:53.5" in str(operations[-1].draft.created_at)  # type: ignore[union-attr]


def without_tool_calling(**fields: Any) -> dict[str, Any]:
    """A log of a model that is given calls and results as text."""
    written = "I list.\n<function=bash>\n<parameter=command>ls</parameter>\n</function>"
    answer = {**completion(says(None, tool_call("b"))), "usage": {"prompt_tokens": 7, "cached": 5}}
    return {
        "messages": [asks("Example. The task"), says(written), asks("EXECUTION RESULT of [bash]:\na.py")],
        "raw_messages": [asks("The task"), says("I list.", tool_call("a")), tool_result("a", "a.py")],
        "response": answer,
        "raw_response": {"choices": completion(says(written))["choices"]},
    } | fields


def test_calls_of_a_model_without_tool_calling_keep_their_ids() -> None:
    operations = read(OPENAI_CHAT, without_tool_calling())
    first, second = outputs(operations)
    assert [c.id for c in (*first.tool_calls, *second.tool_calls)] == ["a", "b"]
    assert (first.text, first.use_tool) == ("I list.", None)
    assert [(r.tool_call_id, r.outputs) for r in results(operations)] == [("a", "a.py")]
    assert inputs(operations)[0].content == "Example. The task"
    assert starts(operations)[0].title == "The task"


def test_the_response_of_a_model_without_tool_calling_keeps_its_usage_and_its_text() -> None:
    entry_metadata = metadata(read(OPENAI_CHAT, without_tool_calling()))[-1]
    assert entry_metadata["usage"] == {"prompt_tokens": 7, "cached": 5}
    assert entry_metadata["as_written"].startswith("I list.\n<function=bash>")


def test_without_a_response_the_written_answer_is_used() -> None:
    log = without_tool_calling(response=None, raw_messages=[asks("The task")])
    first, second = outputs(read(OPENAI_CHAT, log))
    assert [output.use_tool and output.use_tool.name for output in (first, second)] == ["bash", "bash"]


@needs("corpus")
def test_a_log_of_the_corpus_without_tool_calling_keeps_ids_and_cached_tokens() -> None:
    [path] = (SHARED / "corpus" / "openai_chat").glob("openhands_llm_data__nonfncall-llm-logs*")
    operations = read_path(OPENAI_CHAT, path)
    ids = [c.id for output in outputs(operations) for c in output.tool_calls]
    assert ids == ["call_00_MYiKq2phNBtYd9chUKjkAgdV", "toolu_02", "toolu_03", "toolu_04"]
    assert [result.tool_call_id for result in results(operations)] == ids[:3]
    usage = metadata(operations)[-1]["usage"]
    assert (usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]) == (9204, 9024)


def test_only_new_messages_of_recorded_calls_are_read() -> None:
    first = recorded([asks()], completion(says(None, tool_call("a"))))
    second = recorded([asks(), says("", tool_call("a")), tool_result("a")], completion(says("Done.")))
    operations = read(OPENAI_CHAT, [first, second])
    assert kinds(operations) == ["model_input", "model_output", "tool_results", "model_output"]
    assert sum("usage" in m for m in metadata(operations)) == 2
    assert len(starts(operations)) == 1


def test_a_client_that_gives_calls_its_own_ids_does_not_lose_their_results() -> None:
    first = recorded([asks()], completion(says(None, tool_call(""), tool_call("x"))))
    again = says(None, tool_call("mine-1"), tool_call("mine-2"))
    second = recorded(
        [asks(), again, tool_result("mine-2", "2"), tool_result("mine-1", "1")], completion(says("Done."))
    )
    operations = read(OPENAI_CHAT, [first, second])
    assert [c.id for c in outputs(operations)[0].tool_calls] == ["run.json-1-1", "x"]
    assert [(r.tool_call_id, r.outputs) for r in results(operations)] == [("x", "2"), ("run.json-1-1", "1")]


def test_calls_of_several_conversations_are_separated() -> None:
    one, two = [asks("one")], [asks("two")]
    calls = [
        recorded(one, completion(says("1"))),
        recorded(two, completion(says("2"))),
        recorded([*one, says("1"), asks("more")], completion(says("1b"))),
    ]
    operations = read(OPENAI_CHAT, calls)
    assert [start.session for start in starts(operations)] == ["run.json", "run.json#2"]
    assert [output.text for output in outputs(operations)] == ["1", "2", "1b"]


def test_a_changed_instruction_is_read_and_the_conversation_continues() -> None:
    def with_system(text: str, *messages: Any) -> list[Any]:
        return [{"role": "system", "content": text}, *messages]

    calls = [
        recorded(with_system("A", asks()), completion(says("1"))),
        recorded(with_system("B", asks(), says("1"), asks()), completion(says("2"))),
    ]
    assert kinds(read(OPENAI_CHAT, calls)) == ["system_instruction", "model_input", "model_output"] * 2


def test_a_failed_call_is_logged_and_its_retry_continues() -> None:
    calls = [recorded([asks()], {"error": {"message": "busy"}}), recorded([asks()], completion(says("1")))]
    operations = read(OPENAI_CHAT, calls)
    assert kinds(operations) == ["model_input", "debug_log", "model_output"]
    assert "busy" in logs(operations)[0].message


def test_a_streamed_response_is_assembled() -> None:
    parts = [
        {"choices": [{"delta": {"role": "assistant", "content": "He"}}], "id": "c", "model": "gpt-4o"},
        {"choices": [{"delta": {"content": "re"}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "look"}}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}}]},
        {"choices": [], "usage": {"prompt_tokens": 3}},
    ]
    stream = "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
    operations = read(OPENAI_CHAT, [recorded([asks()], stream)])
    [output] = outputs(operations)
    assert (output.text, output.tool_calls[0].name, output.tool_calls[0].id) == ("Here", "look", "a")
    assert metadata(operations)[-1]["usage"] == {"prompt_tokens": 3}


def test_runs_of_tau_bench_are_sessions_by_task_and_trial() -> None:
    run = {
        "trial": 1,
        "reward": 1.0,
        "info": {"x": 1},
        "traj": [asks(), says(None, tool_call("a")), tool_result("a", "Error: no")],
    }
    operations = read(OPENAI_CHAT, [{**run, "task_id": 3}, {**run, "task_id": 4}, {**run, "task_id": 4}])
    assert [start.session for start in starts(operations)] == [
        "run.json#task-3-trial-1", "run.json#task-4-trial-1", "run.json#3",
    ]  # fmt: skip
    assert starts(operations)[0].metadata["reward"] == 1.0
    assert {(r.status, r.reason) for r in results(operations)} == {("error", "Error: no")}


def test_lines_of_conversations_are_sessions_by_line() -> None:
    operations = read(OPENAI_CHAT, lines({"messages": CHAT}, {"messages": CHAT}) + "\n{broken", "many.jsonl")
    assert [start.session for start in starts(operations)] == ["many.jsonl#1", "many.jsonl#2"]
    assert [item.line for item in skipped(operations)] == [3]


def test_a_broken_message_is_named_and_the_others_are_read() -> None:
    operations = read(OPENAI_CHAT, [asks(), 7, {"content": "no role"}, says("a")])
    assert [(item.line, item.damaged) for item in skipped(operations)] == [(2, True), (3, True)]
    assert kinds(operations) == ["model_input", "model_output"]


def test_a_message_nested_too_deep_is_named_and_the_others_are_read() -> None:
    deep: Any = "x"
    for _ in range(250):
        deep = [deep]
    operations = read(OPENAI_CHAT, [asks(), asks(deep), says("a")])
    assert [item.line for item in skipped(operations)] == [2]
    assert kinds(operations) == ["model_input", "model_output"]


def test_any_text_is_read_unchanged() -> None:
    odd = "\ud800 \x00 <script>alert(1)</script> \u2028"
    operations = read(
        OPENAI_CHAT,
        [asks(odd), says(odd, tool_call("a", odd, json.dumps({odd: odd}))), tool_result("a", odd)],
    )
    [output] = outputs(operations)
    assert (output.text, output.tool_calls[0].name, output.tool_calls[0].arguments) == (odd, odd, {odd: odd})
    assert (inputs(operations)[0].content, results(operations)[0].outputs) == (odd, odd)


@pytest.mark.parametrize("data", [[], {"messages": []}, [7], "no json", {"messages": [{"no": "role"}]}])
def test_a_file_without_messages_is_refused_with_its_name(data: Any) -> None:
    with pytest.raises(UnreadableTranscript, match=r"run\.json"):
        read(OPENAI_CHAT, data)


def test_a_call_of_another_provider_is_skipped_and_not_counted_as_damaged() -> None:
    other: dict[str, Any] = {"request": {"contents": []}, "response": {}}
    operations = read(OPENAI_CHAT, [other, recorded([asks()], completion(says("a")))])
    assert [(item.line, item.damaged) for item in skipped(operations)] == [(1, False)]
    assert kinds(operations) == ["model_input", "model_output"]
