from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.entries import ModelInput
from historyapp.core.importers.base import Append, RewindTo
from tests.core.importers.claude_lines import answer, assistant, read, record, says, tool_call, user, uuid
from tests.core.importers.operations import bodies, live, rewinds


def test_a_second_prompt_under_one_parent_cuts_the_first_one_off() -> None:
    operations = read(
        user(1, None, "start"),
        assistant(2, 1, says("ready")),
        user(3, 2, "do A"),
        assistant(4, 3, says("did A")),
        user(5, 2, "do B"),
        assistant(6, 5, says("did B")),
    )
    assert rewinds(operations) == [(5, 2)]
    assert [getattr(body, "content", "") or body.text for body in live(operations)] == [
        "start", "ready", "do B", "did B",
    ]  # fmt: skip


def test_going_back_to_the_first_prompt_leaves_an_empty_history() -> None:
    operations = read(
        user(1, None, "do A"),
        assistant(2, 1, says("did A")),
        user(3, None, "do B"),
        assistant(4, 3, says("did B")),
    )
    assert rewinds(operations) == [(3, 0)]


def test_a_cleared_context_is_logged_and_is_not_a_rewind() -> None:
    hook = {"type": "hook_progress", "hookName": "SessionStart:clear"}
    operations = read(
        user(1, None, "plan"),
        assistant(2, 1, says("planned")),
        record("progress", 3, None, data=hook),
        user(4, 3, "carry it out"),
    )
    assert rewinds(operations) == []
    assert [body.kind for body in bodies(operations)] == [
        "model_input",
        "model_output",
        "debug_log",
        "model_input",
    ]


@pytest.mark.parametrize(
    "prompt", ["Implement the following plan:\n\n1. x", "<command-name>/clear</command-name>"]
)
def test_a_prompt_that_follows_a_cleared_context_is_not_a_rewind(prompt: str) -> None:
    operations = read(user(1, None, "plan"), assistant(2, 1, says("planned")), user(3, None, prompt))
    assert rewinds(operations) == []


def test_a_file_without_links_is_a_straight_line() -> None:
    operations = read(
        user(1, None, "a"), assistant(2, None, says("b")), user(3, None, "c"), assistant(4, None, says("d"))
    )
    assert rewinds(operations) == []


def test_parallel_results_and_progress_are_not_branches() -> None:
    operations = read(
        user(1, None, "go"),
        assistant(2, 1, tool_call("t1"), id="m"),
        assistant(3, 2, tool_call("t2"), id="m"),
        record("progress", 4, 2, data={"type": "bash_progress"}),
        answer(5, 2, "t1"),
        answer(6, 3, "t2"),
        assistant(7, 5, says("both done")),
        user(8, 7, "thanks"),
    )
    assert rewinds(operations) == []


def test_a_late_note_under_an_older_record_is_not_a_branch() -> None:
    operations = read(
        user(1, None, "go"),
        assistant(2, 1, says("done")),
        record("system", 3, 2, subtype="turn_duration", durationMs=5),
        user(4, 2, "next"),
        user(5, 1, "a late note", isMeta=True),
    )
    assert rewinds(operations) == []


def test_a_branch_below_progress_lines_is_found() -> None:
    operations = read(
        record("progress", 1, None, data={"type": "hook_progress"}),
        user(2, 1, "do A"),
        assistant(3, 2, says("did A")),
        user(4, 1, "do B"),
    )
    assert rewinds(operations) == [(3, 0)]


def test_leaving_a_command_without_an_effect_is_not_a_rewind() -> None:
    operations = read(
        user(1, None, "start"),
        assistant(2, 1, says("ready")),
        user(3, 2, "<command-name>/exit</command-name>"),
        assistant(4, 2, says("No response requested."), message={"model": "<synthetic>"}),
        user(5, 4, "next"),
    )
    assert rewinds(operations) == []


def test_leaving_a_command_with_an_effect_is_a_rewind() -> None:
    operations = read(
        user(1, None, "start"),
        assistant(2, 1, says("ready")),
        user(3, 2, "<command-name>/review</command-name>"),
        assistant(4, 3, says("reviewed")),
        user(5, 2, "next"),
    )
    assert rewinds(operations) == [(5, 2)]


@pytest.mark.parametrize("subtype", ["informational", "turn_duration"])
def test_a_note_beside_an_older_record_does_not_hide_a_branch(subtype: str) -> None:
    operations = read(
        user(1, None, "start"),
        assistant(2, 1, says("ready")),
        user(3, 2, "do A"),
        assistant(4, 3, says("did A")),
        record("system", 5, 2, subtype=subtype),
        user(6, 5, "do B"),
    )
    assert rewinds(operations) == [(6, 2)]


def test_going_back_keeps_the_results_of_parallel_calls_together() -> None:
    operations = read(
        user(1, None, "go"),
        assistant(2, 1, tool_call("t1"), tool_call("t2")),
        answer(3, 2, "t1"),
        answer(4, 2, "t2"),
        user(5, 3, "stop, do A"),
        assistant(6, 5, says("did A")),
        user(7, 3, "no, B"),
    )
    assert rewinds(operations) == [(7, 4)]


def test_a_record_that_continues_a_take_goes_back_to_it() -> None:
    operations = read(
        user(1, None, "start"),
        assistant(2, 1, says("ready")),
        user(3, 2, "do A"),
        user(4, 2, "do B"),
        assistant(5, 3, says("did A")),
    )
    assert rewinds(operations) == [(4, 2), (6, 3)]
    assert [getattr(body, "content", "") or body.text for body in live(operations)] == [
        "start", "ready", "do A", "did A",
    ]  # fmt: skip


def test_a_record_that_continues_a_restored_take_is_not_a_rewind() -> None:
    operations = read(
        user(1, None, "start"),
        assistant(2, 1, says("ready")),
        user(3, 2, "do A"),
        assistant(4, 3, tool_call("t")),
        user(5, 2, "do B"),
        assistant(6, 5, says("did B")),
        answer(7, 4, "t"),
        user(8, 7, "go on with A"),
    )
    assert rewinds(operations) == [(5, 2), (8, 4)]


def test_a_compaction_keeps_the_history_live() -> None:
    operations = read(
        user(1, None, "start"),
        assistant(2, 1, says("ready")),
        record("system", 3, None, subtype="compact_boundary", logicalParentUuid=uuid(2), content="compacted"),
        user(4, 3, "Summary", isCompactSummary=True),
        user(5, 4, "next"),
    )
    assert rewinds(operations) == []


@st.composite
def trees(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A conversation in which people return to earlier turns, or continue an abandoned branch."""
    records: list[dict[str, Any]] = []
    ends: list[int | None] = [None]
    for turn in range(draw(st.integers(1, 8))):
        first = len(records) + 1
        parent = draw(st.sampled_from(ends)) if turn else None
        records.append(user(first, parent, f"prompt {first}"))
        calls = draw(st.integers(0, 3))
        records.append(
            assistant(first + 1, first, *(tool_call(f"t{first}-{n}") for n in range(calls)), says("x"))
        )
        for n in range(calls):
            records.append(answer(len(records) + 1, first + 1, f"t{first}-{n}"))
        if draw(st.booleans()):
            end = len(records)
            records.append(record("system", end + 1, end, subtype="turn_duration", durationMs=1))
        ends.append(len(records))
    return records


def path_of(records: list[dict[str, Any]]) -> list[str]:
    """The prompts from the first one to the last record, along the parents."""
    by_id = {item["uuid"]: item for item in records}
    path: list[str] = []
    item: dict[str, Any] | None = records[-1]
    while item:
        if item["type"] == "user" and isinstance(item["message"]["content"], str):
            path.append(item["message"]["content"])
        item = by_id.get(item["parentUuid"])
    return path[::-1]


@given(trees())
def test_the_last_branch_of_any_tree_is_live(records: list[dict[str, Any]]) -> None:
    operations = read(*records)
    assert [body.content for body in live(operations) if isinstance(body, ModelInput)] == path_of(records)
    assert len([body for body in bodies(operations) if isinstance(body, ModelInput)]) == sum(
        isinstance(item.get("message", {}).get("content"), str) for item in records
    )


@given(trees(), st.data())
def test_the_operations_of_a_grown_file_begin_with_those_of_the_shorter_one(
    records: list[dict[str, Any]], data: st.DataObject
) -> None:
    shorter = read(*records[: data.draw(st.integers(1, len(records)))])
    settled = [
        op for op in shorter if isinstance(op, RewindTo) or (isinstance(op, Append) and not op.provisional)
    ]
    whole = [op for op in read(*records) if isinstance(op, (RewindTo, Append))]
    assert whole[: len(settled)] == settled
