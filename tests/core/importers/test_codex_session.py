from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.entries import DebugLog, ModelInput, SystemInstruction
from historyapp.core.importers.base import Append, RewindTo, SessionStart, Skipped
from tests.core.importers.codex_lines import (
    S,
    asks,
    event,
    item,
    line,
    meta,
    output,
    read,
    says,
    thinks,
    tokens,
    tool_call,
)
from tests.core.importers.operations import bodies, live, metadata, outputs, results, rewinds, starts


def kinds(operations: list[Any]) -> list[str]:
    return [body.kind for body in bodies(operations)]


def usages(operations: list[Any]) -> list[Any]:
    return [
        op.draft.metadata.get("usage", {}).get("output_tokens")
        for op in operations
        if isinstance(op, Append) and op.draft.body.kind == "model_output"
    ]


# Sessions


def test_a_session_is_announced_with_what_its_first_lines_say() -> None:
    git = {"branch": "main", "commit_hash": "abc"}
    first = meta(cwd="/home/u", cli_version="0.104.0", originator="codex_cli_rs", source="cli", git=git)
    context = line("turn_context", {"model": "gpt-5.3-codex"})
    assert starts(read(first, asks("Fix it"), context, says("Done.")))[S] == SessionStart(
        S,
        title="Fix it",
        agent="codex",
        model="gpt-5.3-codex",
        tags=("main",),
        metadata={
            "cwd": "/home/u",
            "version": "0.104.0",
            "originator": "codex_cli_rs",
            "source": "cli",
            "commit": "abc",
        },
    )


def test_the_session_meta_of_a_copied_history_begins_no_session() -> None:
    operations = read(meta(), meta(id="older"), asks("go"))
    assert list(starts(operations)) == [S]
    assert Skipped(2, "session_meta of a copied history", damaged=False) in operations


def test_a_session_meta_that_comes_late_does_not_announce_the_session_again() -> None:
    operations = read(says("Hi"), meta(id="other"), asks("go"))
    assert list(starts(operations)) == [S]
    assert len(bodies(operations)) == 2


def test_a_file_whose_first_line_is_lost_is_named_by_its_name() -> None:
    assert list(starts(read('{"timestamp": "2026', asks("go")))) == [S]
    assert list(starts(read(asks("go"), name="some.jsonl"))) == ["some"]


@pytest.mark.parametrize(
    "fields",
    [
        {"source": {"subagent": {"thread_spawn": {"parent_thread_id": "parent"}}}},
        {"source": {"subagent": "review"}, "parent_thread_id": "parent"},
    ],
)
def test_a_sub_agent_is_linked_to_what_started_it(fields: dict[str, Any]) -> None:
    assert starts(read(meta(**fields), asks("go")))[S].spawned_by == "parent"


def test_a_sub_agent_whose_parent_is_not_named_keeps_its_source() -> None:
    start = starts(read(meta(source={"subagent": "review"}), asks("go")))[S]
    assert (start.spawned_by, start.metadata["source"]) == (None, {"subagent": "review"})


def test_base_instructions_are_read_once() -> None:
    fields = {"base_instructions": {"text": "You are Codex."}}
    operations = read(meta(**fields), meta(**fields), asks("go"))
    assert bodies(operations)[0] == SystemInstruction(text="You are Codex.")
    assert kinds(operations) == ["system_instruction", "model_input"]


def instructions(operations: list[Any]) -> list[str]:
    return [body.text for body in bodies(operations) if isinstance(body, SystemInstruction)]


def test_developer_messages_add_to_the_base_instructions() -> None:
    base = meta(base_instructions={"text": "You are Codex."})
    operations = read(base, says("Plan only.", "developer"), asks("go"), says("Now code.", "developer"))
    assert instructions(operations) == [
        "You are Codex.",
        "You are Codex.\n\nPlan only.",
        "You are Codex.\n\nPlan only.\n\nNow code.",
    ]


def test_a_repeated_developer_message_counts_at_its_last_place() -> None:
    operations = read(*(says(text, "developer") for text in ("Plan.", "Code.", "Plan.")), asks("go"))
    assert instructions(operations)[-1] == "Code.\n\nPlan."


def test_a_rollback_removes_developer_messages() -> None:
    operations = read(
        says("Plan.", "developer"),
        asks("A"),
        says("Code.", "developer"),
        event("thread_rolled_back", num_turns=1),
        says("Test.", "developer"),
        asks("B"),
    )
    assert instructions(operations)[-1] == "Plan.\n\nTest."


def test_instructions_do_not_grow_without_end() -> None:
    operations = read(*(says(f"Rule {number}.", "developer") for number in range(200)), asks("go"))
    last = instructions(operations)[-1].split("\n\n")
    assert last == [f"Rule {number}." for number in range(150, 200)]


def test_a_thread_s_name_is_the_title() -> None:
    operations = read(asks("go"), event("thread_name_updated", thread_name="The login"), says("ok"))
    assert starts(operations)[S].title == "The login"


def test_a_file_of_2025_with_bare_items_is_read() -> None:
    operations = read(
        {"id": "old", "timestamp": "2025-08-01T00:00:00Z", "instructions": "Be brief.", "git": None},
        {"record_type": "state"},
        asks("go")["payload"],
        tool_call("c")["payload"],
        output("c")["payload"],
    )
    assert list(starts(operations)) == ["old"]
    assert kinds(operations) == ["system_instruction", "model_input", "model_output", "tool_results"]


def test_messages_without_a_type_are_read() -> None:
    operations = read(
        {"created_at": "2025-09-10T12:00:00Z", "role": "user", "message": "Translate 'hello'"},
        {"type": "function_call", "function": {"name": "translate"}, "arguments": {"text": "hello"}},
        {"type": "function_result", "name": "translate", "result": "hola"},
    )
    assert bodies(operations)[0] == ModelInput(channel="user", content="Translate 'hello'")
    assert outputs(operations)[0].tool_calls[0].name == "translate"
    assert [(r.tool_name, r.outputs) for r in results(operations)] == [("translate", "hola")]


# Outputs


def test_the_items_of_one_response_become_one_output() -> None:
    operations = read(
        asks("go"), thinks("Hm."), says("I look."), tool_call("a"), tool_call("b"), output("a"), output("b")
    )
    assert kinds(operations) == ["model_input", "model_output", "tool_results", "tool_results"]
    (body,) = outputs(operations)
    assert (body.thoughts, body.text, [c.id for c in body.tool_calls]) == ("Hm.", "I look.", ["a", "b"])


def test_items_after_a_result_are_the_next_output() -> None:
    operations = read(tool_call("a"), output("a"), tool_call("b"), output("b"), says("Done."))
    assert kinds(operations) == [
        "model_output",
        "tool_results",
        "model_output",
        "tool_results",
        "model_output",
    ]


def test_a_late_result_finds_its_call() -> None:
    operations = read(tool_call("a"), tool_call("b"), output("b", "B"), says("Meanwhile."), output("a", "A"))
    assert [(r.tool_call_id, r.tool_name, r.outputs) for r in results(operations)] == [
        ("b", "shell", "B"),
        ("a", "shell", "A"),
    ]


def test_repeated_call_ids_in_one_output_are_made_unique() -> None:
    operations = read(tool_call("a"), tool_call("a"), output("a", "1"), output("a", "2"))
    ids = [c.id for c in outputs(operations)[0].tool_calls]
    assert len(set(ids)) == 2
    assert [r.tool_call_id for r in results(operations)] == ids


def test_metadata_has_the_source_of_an_entry() -> None:
    context = line("turn_context", {"model": "gpt-5"})
    operations = read(
        meta(model_provider="azure"), context, item("message", role="assistant", id="msg", content="Hi")
    )
    assert metadata(operations) == [
        {"source": {"format": "codex_rollout", "line": 3, "id": "msg"}, "provider": "azure", "model": "gpt-5"}
    ]


def test_an_entry_has_its_line_s_time() -> None:
    (entry,) = [op for op in read(asks("go")) if isinstance(op, Append)]
    assert entry.draft.created_at == datetime(2026, 2, 23, 11, 41, 32, 239000, UTC)


def test_entries_that_are_open_at_the_end_of_the_file_are_provisional() -> None:
    operations = read(asks("go"), tool_call("c"), output("c"))
    assert [op.provisional for op in operations if isinstance(op, Append)] == [False, True, True]


def test_the_end_of_a_turn_closes_its_last_output() -> None:
    operations = read(asks("go"), says("Done."), event("task_complete"))
    assert [op.provisional for op in operations if isinstance(op, Append)] == [False, False]


# Usage


def test_usage_after_a_response_belongs_to_it() -> None:
    operations = read(
        asks("x"), tool_call("a"), tokens(1, 11), output("a"), tokens(1, 11), says("y"), tokens(2, 22)
    )
    assert usages(operations) == [11, 22]


def test_usage_before_a_response_belongs_to_it() -> None:
    operations = read(asks("x"), tokens(1, 11), tool_call("a"), output("a"), tokens(2, 22), says("y"))
    assert usages(operations) == [11, 22]


def test_usage_after_the_results_belongs_to_its_response() -> None:
    operations = read(asks("x"), tool_call("a"), output("a"), tokens(1, 11), says("y"), tokens(2, 22))
    assert usages(operations) == [11, 22]


def test_a_response_without_usage_does_not_take_the_next_one_s() -> None:
    steps = [tool_call("a"), output("a"), tool_call("b"), output("b")]
    operations = read(asks("x"), tokens(1, 11), *steps, tokens(3, 33), says("y"))
    assert usages(operations) == [11, None, 33]


def test_usage_separates_responses_without_a_result_between_them() -> None:
    operations = read(asks("x"), says("a"), tokens(1, 11), says("b"), tokens(2, 22))
    assert usages(operations) == [11, 22]


def test_usage_that_is_repeated_or_empty_counts_once() -> None:
    empty = event("token_count", info=None)
    operations = read(asks("x"), empty, says("a"), tokens(1, 11), tokens(1, 11), empty, says("b"))
    assert usages(operations) == [11, None]
    assert len([op for op in operations if isinstance(op, Skipped)]) == 3


def test_usage_of_a_response_that_was_lost_is_named() -> None:
    operations = read(asks("x"), tokens(1, 11), tokens(2, 22), says("a"))
    assert usages(operations) == [22]
    assert Skipped(2, "usage of a response that is not in the file", damaged=False) in operations


def test_usage_counts_cached_tokens_as_part_of_the_input() -> None:
    assert metadata(read(says("a"), tokens(1)))[0]["usage_convention"] == "openai"


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.sampled_from(["before", "after", "late"]))
def test_every_response_gets_its_own_usage(calls: list[int], order: str) -> None:
    records = [asks("x")]
    for number, count in enumerate(calls, start=1):
        items = [thinks("t"), *(tool_call(f"{number}-{n}") for n in range(count))]
        answers = [output(f"{number}-{n}") for n in range(count)]
        counted = [tokens(number, number)]
        parts = {
            "before": counted + items + answers,
            "after": items + counted + answers + counted,
            "late": items + answers + counted,
        }
        records += parts[order]
    assert usages(read(*records)) == list(range(1, len(calls) + 1))


# Events


def test_events_that_repeat_items_are_not_imported_again() -> None:
    operations = read(
        event("user_message", message="go"),
        asks("go"),
        event("agent_reasoning", text="Hm."),
        thinks("Hm."),
        event("agent_message", message="Done."),
        says("Done."),
    )
    assert kinds(operations) == ["model_input", "model_output"]
    assert len([op for op in operations if isinstance(op, Skipped) and not op.damaged]) == 3


def test_events_are_imported_if_there_are_no_items() -> None:
    operations = read(
        meta(),
        event("user_message", message="go"),
        event("agent_reasoning", text="Hm."),
        event("agent_message", message="Done."),
    )
    assert bodies(operations)[0] == ModelInput(channel="user", content="go")
    (body,) = outputs(operations)
    assert (body.thoughts, body.text) == ("Hm.", "Done.")
    assert all(op.provisional for op in operations if isinstance(op, Append))


def test_a_file_with_only_events_is_read_in_pieces() -> None:
    operations = read(*(event("user_message", message=str(n)) for n in range(2500)))
    assert [body.content for body in bodies(operations)] == [str(n) for n in range(2500)]
    assert sum(op.provisional for op in operations if isinstance(op, Append)) == 500


def test_the_reason_of_an_event_is_its_message() -> None:
    log = bodies(read(asks("x"), event("turn_aborted", reason="interrupted")))[-1]
    assert isinstance(log, DebugLog)
    assert log.message == "interrupted"


@pytest.mark.parametrize(
    ("fields", "category", "words"),
    [
        (event("turn_aborted", reason="interrupted"), "turn_aborted", "interrupted"),
        (event("error", message="rate limit"), "error", "rate limit"),
        (event("task_complete", duration_ms=1234), "turn_duration", "1.2 s"),
        (event("task_complete", error={"message": "broke"}), "error", "broke"),
        (event("exited_review_mode", review_output={"findings": ["one"]}), "review_mode", "one"),
    ],
)
def test_informative_events_are_logged(fields: dict[str, Any], category: str, words: str) -> None:
    (body,) = bodies(read(fields))
    assert isinstance(body, DebugLog)
    assert body.category == category
    assert words in body.message


def test_a_compaction_loses_nothing() -> None:
    replacement = [{"type": "message", "role": "user", "content": []}]
    operations = read(
        asks("go"), line("compacted", {"message": "So far …", "replacement_history": replacement})
    )
    assert kinds(operations) == ["model_input", "debug_log", "model_input"]
    assert bodies(operations)[2] == ModelInput(channel="compaction", content="So far …")
    assert metadata(operations)[1]["replacement_history"] == replacement


def test_a_rollback_drops_turns_from_their_prompts_on() -> None:
    operations = read(
        asks("<environment_context>"),
        asks("A"),
        says("a"),
        asks("B"),
        says("b"),
        event("thread_rolled_back", num_turns=1),
        asks("C"),
        says("c"),
        event("thread_rolled_back", num_turns=2),
        asks("D"),
    )
    assert rewinds(operations) == [(6, 3), (9, 1)]
    assert [body.content for body in live(operations)] == ["<environment_context>", "D"]


@pytest.mark.parametrize("turns", [0, -1, None, "1"])
def test_a_rollback_of_no_turns_changes_nothing(turns: Any) -> None:
    operations = read(asks("A"), event("thread_rolled_back", num_turns=turns))
    assert not [op for op in operations if isinstance(op, RewindTo)]


@given(st.data())
def test_the_operations_of_a_grown_file_begin_with_those_of_the_shorter_one(data: st.DataObject) -> None:
    choices = st.sampled_from(
        [asks("x"), thinks("t"), says("y"), tool_call("a"), output("a"), tokens(1), tokens(2), tokens(3),
         event("turn_aborted"), event("task_complete"), event("thread_rolled_back", num_turns=1),
         event("agent_message", message="y"), line("compacted", {"message": "z"})]
    )  # fmt: skip
    records = [asks("first"), *data.draw(st.lists(choices, min_size=1, max_size=15))]
    shorter = read(*records[: data.draw(st.integers(1, len(records)))])
    settled = [
        op for op in shorter if isinstance(op, RewindTo) or (isinstance(op, Append) and not op.provisional)
    ]
    whole = [op for op in read(*records) if isinstance(op, (RewindTo, Append))]
    assert whole[: len(settled)] == settled
