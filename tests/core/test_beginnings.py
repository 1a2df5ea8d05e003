"""Beginnings equal the beginnings of the whole texts, and entries of any content are projected fast."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from historyapp.core.beginnings import beginning, json_beginning, repr_parts, spaced_json_parts
from historyapp.core.conversation import calls_beginning, calls_text
from historyapp.core.entries import (
    Body,
    Entry,
    EntryDraft,
    ModelOutput,
    Thoughts,
    ToolCall,
    ToolResult,
    ToolResults,
    UseTool,
)
from historyapp.core.json import json_text
from historyapp.core.prepared import FailureSearch, prepare, with_facts
from historyapp.core.projection import Step, Tail, advance
from historyapp.core.result_previews import result_preview
from historyapp.core.text import PIECE_LENGTH, preview
from tests.examples import examples

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=[]))
FIELD_NAMES = st.text()
"""Without lone surrogates: thoughts with such a name are refused."""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)
ARGUMENTS = st.dictionaries(ANY_TEXT, VALUES, max_size=4) | ANY_TEXT
LENGTH = 10
SIZE = 8_000_000
LINES = "\n" * (SIZE // 2)
NOW = datetime.now(UTC)


def calling(name: str, arguments: Any) -> ModelOutput:
    return ModelOutput(tool_calls=(ToolCall(id="a", name=name, arguments=arguments),))


@settings(max_examples=examples(300))
@given(VALUES)
@example({"\0": None})
@example({"\0": 1, "\ufffd": 2})
def test_the_beginning_of_a_repr_or_json_is_that_of_the_whole(value: Any) -> None:
    assert beginning(repr_parts(value, LENGTH), LENGTH)[:LENGTH] == repr(value)[:LENGTH]
    assert json_beginning(value, LENGTH)[:LENGTH] == json_text(value)[:LENGTH]


def test_the_beginning_of_a_deep_value_takes_no_longer_than_that_of_a_flat_one() -> None:
    value: Any = 1
    for _ in range(5_000):
        value = [value]
    assert json_beginning(value, 10**6) == "[" * 5_000 + "1" + "]" * 5_000


@pytest.mark.parametrize("value", [["a" * 10**6], {"a" * 10**6: 1}])
def test_the_rest_of_a_long_text_is_not_written(value: Any) -> None:
    """An append waits for it within its transaction."""
    assert len(json_beginning(value, LENGTH)) < 2 * PIECE_LENGTH
    assert len(beginning(spaced_json_parts(value), LENGTH)) < 2 * PIECE_LENGTH


@settings(max_examples=examples(300))
@given(st.lists(st.tuples(ANY_TEXT, ARGUMENTS), min_size=1, max_size=3), st.booleans())
def test_the_beginning_of_calls_is_that_of_the_whole(calls: list[tuple[str, Any]], as_text: bool) -> None:
    tool_calls = [ToolCall(id=str(n), name=name, arguments=value) for n, (name, value) in enumerate(calls)]
    output = ModelOutput(tool_calls=tuple(tool_calls))
    if as_text and isinstance(calls[0][1], dict):
        output = ModelOutput(use_tool=UseTool(name=calls[0][0], arguments=calls[0][1]))
    assert calls_beginning(output, LENGTH)[:LENGTH] == calls_text(output)[:LENGTH]


@settings(max_examples=examples(300))
@given(st.dictionaries(FIELD_NAMES, VALUES, max_size=4))
@example({"summary": "short", "plan": "long"})
@example({"summary": " ", "plan": ["a"], "none": None})
def test_the_beginning_of_thoughts_is_that_of_the_whole(fields: dict[str, Any]) -> None:
    thoughts = Thoughts.model_validate(fields)
    output = ModelOutput(thoughts=thoughts)
    assert output.thoughts_beginning(LENGTH)[:LENGTH] == thoughts.text[:LENGTH]
    assert output.thoughts_beginning(10**6) == thoughts.text


@pytest.mark.parametrize("quotes", ["", "'", '"', "'\""])
def test_the_preview_of_a_long_call_has_the_quotes_of_the_whole(quotes: str) -> None:
    output = calling("bash", {"command": "echo a  b\n" * 3_000 + quotes})
    assert preview(calls_beginning(output, 1_000)) == preview(calls_text(output))
    entry = Entry(1, output, NOW, {}, 10_000)
    assert advance(Tail(), entry).changed[0].call_preview == preview(calls_text(output))


@pytest.mark.parametrize(
    "make_body",
    [
        lambda: calling("apply_patch", {"patch": "*** Begin Patch\n" + "+a\n" * (SIZE // 3)}),
        lambda: calling("exec", {"code": "*** Begin Patch\\n" + "+\\n" * (SIZE // 3)}),
        lambda: calling("edit", {"file_path": "a", "old_string": LINES, "new_string": LINES + "a"}),
        lambda: calling("bash", {"command": f"edit 1:2\n{LINES}end_of_edit"}),
        lambda: calling("bash", {"command": ["a"] * 300_000}),
        lambda: calling("x", {f"k{number}": number for number in range(300_000)}),
        lambda: calling("x", {f"k{number}": f"é {number}" for number in range(130_000)}),
        lambda: calling("todowrite", {"todos": [{"content": "a", "status": "completed"}] * 100_000}),
        lambda: ModelOutput(
            thoughts=Thoughts.model_validate({f"k{number}": number for number in range(300_000)})
        ),
        lambda: ModelOutput(thoughts=Thoughts.model_validate({"plan": [[1]] * 130_000})),
    ],
    ids=["patch", "script", "edit", "command", "words", "numbers", "texts", "tasks", "thoughts", "plan"],
)
def test_an_output_of_any_content_is_projected_fast(make_body: Callable[[], Body]) -> None:
    """An append waits for it within its transaction. Each of these took 0.2 to 2 seconds.

    Each is made by its test: all of them together take 150 MB.
    """
    entry = Entry(1, make_body(), NOW, {}, 1_000_000)
    started = time.process_time()
    advance(Tail(), entry)
    assert time.process_time() - started < 0.15


def test_the_preview_of_a_result_reads_only_its_beginning() -> None:
    """An append waits for it within its transaction. It took 0.5 seconds."""
    result = ToolResult(status="success", outputs=[[["é"]]] * 330_000)
    started = time.process_time()
    assert result_preview(result).startswith('[[["é"]],[["é"]]')
    assert time.process_time() - started < 0.2


@pytest.mark.parametrize("status", ["success", "error"])
def test_the_texts_of_long_results_are_made_before_the_transaction(
    status: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = ToolResult(tool_call_id="a", status=status, outputs=[["é"]] * 20_000, reason="no")
    results = ToolResults(results=(result,))
    prepared = prepare(EntryDraft(results))
    tail = advance(Tail(), Entry(1, calling("bash", {"command": "ls"}), NOW, {}, 1)).tail
    without = advance(tail, Entry(2, results, NOW, {}, 9))
    monkeypatch.setattr("historyapp.core.failures.returned_text", None)
    assert advance(tail, Entry(2, results, NOW, {}, 9), texts=prepared.texts) == without
    assert prepare(EntryDraft(ToolResults(results=(ToolResult(status="success"),)))).texts == ()


@pytest.mark.parametrize("has_ids", [True, False])
@pytest.mark.parametrize(
    "texts",
    [
        ("fine", "fine", "fine"),
        ("error: no", "fine", "fine"),
        ("error: no", "!no", "error: x"),
        ("!no", "error: no", "fine"),
        ("!", "error: no", "fine"),
        ("!one", "!two", "fine"),
    ],
)
def test_failures_of_calls_in_the_same_append_are_found_before_the_transaction(
    texts: tuple[str, ...], has_ids: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``!`` marks results that were reported as errors."""
    calls = tuple(ToolCall(id=id, name="bash", arguments={"command": "make"}) for id in "abc")
    results: list[ToolResult] = []
    for call, text in zip(calls, texts, strict=True):
        status: Any = "error" if text[0] == "!" else "success"
        shown = text.removeprefix("!")
        id = call.id if has_ids else None
        results.append(ToolResult(tool_call_id=id, status=status, outputs=shown, reason=shown))
    again = results[0].model_copy(update={"status": "error"})  # answers no open call, so it does not count
    answers = [results[:1], [again], results[1:]] if has_ids else [results]
    bodies: list[Body] = [
        ModelOutput(tool_calls=calls),
        *(ToolResults(results=tuple(each)) for each in answers),
    ]
    search = FailureSearch()
    entries = [search.searched(with_facts(prepare(EntryDraft(body)))) for body in bodies]

    def row(*, searched: bool) -> Step | None:
        tail = Tail()
        for position, entry in enumerate(entries, 1):
            found = entry.texts if searched else ()
            tail = advance(tail, Entry(position, entry.draft.body, NOW, {}, 1), texts=found).tail
        return tail.step

    looked_for = row(searched=False)
    monkeypatch.setattr("historyapp.core.projection.likely_failure", None)
    monkeypatch.setattr("historyapp.core.projection.error_line", None)
    assert row(searched=True) == looked_for
