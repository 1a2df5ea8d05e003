"""In a step that is too long to hold in memory, long entries lose their texts and nothing else."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from historyapp.core.entries import (
    Body,
    DebugLog,
    Entry,
    MemoryNotebook,
    ModelInput,
    ModelOutput,
    Review,
    SystemInstruction,
    ToolCall,
    ToolResult,
    ToolResults,
)
from historyapp.core.exporters import EXPORTERS
from historyapp.core.exporters.base import ExportSession
from historyapp.core.exporters.long_steps import MAX_STEP, shortened

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CALLS = ModelOutput(tool_calls=tuple([ToolCall(id=id, name="read") for id in "ab"]))
BODIES: tuple[Body, ...] = (
    ModelInput(content="before"),
    CALLS,
    ModelInput(content="during"),
    ToolResults(results=(ToolResult(tool_call_id="b", status="success", outputs="result b"),)),
    DebugLog(category="c", message="debug"),
    ToolResults(
        results=(
            ToolResult(tool_call_id="late", status="success", outputs="late"),
            ToolResult(tool_call_id="a", status="error", reason="result a"),
        ),
        overall="remark",
    ),
    ToolResults(results=(ToolResult(tool_call_id="late", status="interrupted_by_human", feedback="stop"),)),
    Review(analysis="good", score=0.5),
    SystemInstruction(text="instruction"),
    MemoryNotebook(content="notebook"),
    ModelOutput(text="next"),
    ModelInput(content="after"),
)


def entries() -> list[Entry]:
    return [Entry(position, body, NOW, {"m": 1}) for position, body in enumerate(BODIES, 1)]


def sized(during: int) -> Iterator[tuple[Entry, int]]:
    """The entries. The one with this position has more bytes than a step may have."""
    for entry in entries():
        yield entry, MAX_STEP + 1 if entry.position == during else 1


def test_a_shorter_step_is_unchanged() -> None:
    unchanged = [entry for entry in entries() if not isinstance(entry.body, DebugLog)]
    assert [*shortened(sized(0))] == unchanged
    assert [*shortened(sized(1))] == unchanged, "entries before the first output are written one by one"
    assert [*shortened(sized(2))] == unchanged, "an output is written completely"


@pytest.mark.parametrize("name", [name for name, exporter in EXPORTERS.items() if exporter.whole_steps])
def test_logs_that_are_left_out_change_no_export(name: str) -> None:
    written = [
        "".join(EXPORTERS[name].write(ExportSession("s", kept))) for kept in (entries(), shortened(sized(0)))
    ]
    assert written[0] == written[1]


def test_entries_after_the_limit_lose_their_texts_until_the_next_output() -> None:
    short = {entry.position: entry for entry in shortened(sized(4))}
    assert [short[position].body for position in (1, 2, 3, 11, 12)] == [
        BODIES[position - 1] for position in (1, 2, 3, 11, 12)
    ]
    assert short.keys() == set(range(1, 13)) - {5}
    texts = {position: str(short[position].body) for position in (4, 6, 7, 8, 9, 10)}
    assert all("bytes are left out here" in text for text in texts.values())
    for position, text in ((4, "result b"), (6, "result a"), (6, "remark"), (7, "stop"), (8, "good")):
        assert text not in texts[position]
    answer = short[6].body
    assert isinstance(answer, ToolResults)
    assert [(result.tool_call_id, result.status) for result in answer.results] == [("a", "error")]
    late = short[7].body
    assert isinstance(late, ToolResults)
    assert late.results[0].status == "interrupted_by_human"
    assert short[4].metadata == {}


def test_shortened_results_still_answer_their_calls() -> None:
    written = "".join(EXPORTERS["openai_messages"].write(ExportSession("s", shortened(sized(3)))))
    messages = json.loads(written)["messages"]
    answers = [message for message in messages if message["role"] == "tool"]
    assert [answer["tool_call_id"] for answer in answers] == ["a", "b"]
    assert all("left out" in answer["content"] for answer in answers)


def test_of_very_many_results_few_are_kept() -> None:
    result = ToolResult(status="success", outputs="x")
    many = Entry(2, ToolResults(results=(result,) * 1000), NOW)
    _, kept = shortened([(Entry(1, CALLS, NOW), 1), (many, MAX_STEP + 1)])
    assert isinstance(kept.body, ToolResults)
    assert len(kept.body.results) == 3
