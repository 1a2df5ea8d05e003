import io
import json
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import Append, Head, Skipped, Source
from historyapp.core.importers.codex_rollout import CODEX_ROLLOUT
from tests.core.importers.codex_lines import (
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
from tests.core.importers.mutilation import mutilated_files, wrong_values
from tests.core.importers.operations import bodies, check, metadata, peak_memory
from tests.examples import examples, thorough
from tests.shared import SHARED, needs

CORPUS = SHARED / "corpus" / "codex_rollout"
FILES = sorted(CORPUS.glob("**/*.jsonl")) or [CORPUS]
HOSTED = ("web_search_call", "image_generation_call")
"""Calls that the provider carries out. They count if the file has their result."""
CALLS = ("function_call", "custom_tool_call", "tool_search_call")
RESULTS = ("function_call_output", "custom_tool_call_output", "tool_search_output", "function_result")


@pytest.mark.parametrize(
    "first",
    [
        meta(),
        event("token_count"),
        {"id": "old", "timestamp": "2025-08-01T00:00:00Z", "instructions": None},
        {"record_type": "state"},
        tool_call("c")["payload"],
        {"type": "thread.started", "thread_id": "t"},
    ],
)
def test_a_file_is_recognised_by_any_of_its_lines(first: dict[str, Any]) -> None:
    assert CODEX_ROLLOUT.recognises(Head("x.jsonl", ({"silly": 1}, first)))


@pytest.mark.parametrize(
    "first",
    [{}, {"type": "user", "sessionId": "s"}, {"type": "event_msg"}, {"role": "user", "content": "hello"}],
)
def test_other_lines_are_not_recognised(first: dict[str, Any]) -> None:
    assert not CODEX_ROLLOUT.recognises(Head("x.jsonl", (first,)))


@pytest.mark.parametrize(
    "broken", ['{"timestamp": "2026', "[1]", {"a": 1}, {"type": "event_msg", "payload": 7}]
)
def test_a_broken_line_is_named_and_all_others_are_read(broken: Any) -> None:
    operations = read(asks("before"), broken, asks("after"))
    assert [body.content for body in bodies(operations)] == ["before", "after"]
    assert [(op.line, op.damaged) for op in operations if isinstance(op, Skipped)] == [(2, True)]


@pytest.mark.parametrize("text", ["", "nothing\nof it", '{"a": 1}'])
def test_an_unreadable_file_is_refused(text: str) -> None:
    with pytest.raises(UnreadableTranscript):
        read(text)


def test_memory_grows_by_no_more_than_the_prompts_positions() -> None:
    def turns(count: int) -> bytes:
        turn = [
            asks("x" * 2000),
            thinks("y" * 2000),
            tool_call("c"),
            tokens(1),
            output("c", "z" * 2000),
            says("done"),
        ]
        return "\n".join(map(json.dumps, [meta(), *turn * count])).encode()

    # The lower of two peaks, because threads of other tests may use memory meanwhile.
    long, short = (min(peak_memory(CODEX_ROLLOUT, turns(count)) for _ in range(2)) for count in (500, 200))
    assert long - short < 300 * 100


def counted(path: Path) -> Counter[str]:
    """Calls and results by the shape of the JSON alone."""
    count: Counter[str] = Counter()
    for row in filter(str.strip, path.read_text("utf-8").splitlines()):
        record = json.loads(row)
        if record.get("type") == "item.completed":
            done = record["item"]["type"] not in ("reasoning", "agent_message")
            count.update(calls=done, results=done)
            continue
        inner = record.get("payload", record) if record.get("type") in (None, "response_item") else record
        kind = inner.get("type")
        answered = kind in HOSTED and "result" in inner
        count.update(calls=kind in CALLS or answered, results=kind in RESULTS or answered)
    return count


@needs("corpus/codex_rollout")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_of_the_corpus_is_read_in_full(path: Path) -> None:
    with path.open("rb") as stream:
        counts = check(CODEX_ROLLOUT.read(Source(path.name, stream)))
    expected = counted(path)
    assert (counts["calls"], counts["results"]) == (expected["calls"], expected["results"])
    orphans = {"agentsessions__small.jsonl": 1}
    assert counts["results"] - counts["paired"] == orphans.get(path.name, 0)


@needs("corpus/codex_rollout")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_of_the_corpus_is_recognised(path: Path) -> None:
    lines = tuple(map(json.loads, filter(str.strip, path.read_text("utf-8").splitlines()[:20])))
    assert CODEX_ROLLOUT.recognises(Head(path.name, lines))


LINES = [
    meta(base_instructions={"text": "x"}, source={"subagent": {"thread_spawn": {}}}, git={"branch": "main"}),
    line("turn_context", {"model": "gpt-5"}),
    event("user_message", message="go"),
    item(
        "message", role="user", content=[{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]
    ),
    thinks("t", encrypted_content="e"),
    tool_call("c"),
    item("web_search_call", status="completed", action={"query": "x"}),
    tokens(1),
    event("exec_command_end", call_id="c", exit_code=1),
    event("mcp_tool_call_end", call_id="d", result={"Ok": {"isError": True, "content": [{"text": "x"}]}}),
    output("c", '{"output":"x","metadata":{"exit_code":1}}'),
    says("done"),
    event("task_complete", duration_ms=5, error=None),
    event("thread_rolled_back", num_turns=1),
    line("compacted", {"message": "m", "replacement_history": [{"type": "message"}]}),
    {"type": "item.started", "item": {"id": "1", "type": "command_execution", "command": "ls"}},
    {"type": "item.completed", "item": {"id": "1", "type": "mcp_tool_call", "result": {"content": []}}},
    {"type": "turn.completed", "usage": {"input_tokens": 1}},
    {"type": "turn.failed", "error": {"message": "x"}},
]


@pytest.mark.parametrize("every", [5, thorough(1)])
def test_a_value_of_the_wrong_type_anywhere_breaks_nothing(every: int) -> None:
    for lines in islice(wrong_values(LINES), None, None, every):
        raw = "\n".join(map(json.dumps, lines)).encode()
        check(CODEX_ROLLOUT.read(Source("x.jsonl", io.BytesIO(raw))))
        CODEX_ROLLOUT.recognises(Head("x.jsonl", tuple(line for line in lines if isinstance(line, dict))))


@settings(max_examples=examples(400))
@given(mutilated_files(LINES))
def test_no_damage_breaks_the_importer(raw: bytes) -> None:
    with suppress(UnreadableTranscript):
        check(CODEX_ROLLOUT.read(Source("x.jsonl", io.BytesIO(raw))))


def test_an_output_has_the_time_of_its_last_item() -> None:
    call = tool_call("c") | {"timestamp": "2026-02-23T11:41:40Z"}
    _, entry, _ = [op for op in read(asks("go"), thinks("Hm."), call, output("c")) if isinstance(op, Append)]
    assert entry.draft.created_at == datetime(2026, 2, 23, 11, 41, 40, tzinfo=UTC)
    assert entry.draft.metadata["source"]["line"] == 2


def test_a_response_has_the_window_that_is_recorded_with_its_usage() -> None:
    window = tokens(1, model_context_window=258_400)
    operations = read(asks("x"), says("a"), window, asks("y"), says("b"), tokens(2))
    sources = [fields["source"] for fields in metadata(operations) if "usage" in fields]
    assert [source.get("window") for source in sources] == [258_400, None]
