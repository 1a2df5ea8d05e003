"""Results as text."""

from typing import Any

import pytest

from historyapp.core.entries import ToolResult
from historyapp.core.results import result_text, returned_text, with_only_text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"status": "success", "outputs": {"a": 1}}, "{'a': 1}"),
        ({"status": "success", "outputs": None}, "None"),
        ({"status": "success", "outputs": "one\ntwo"}, "```\none\ntwo\n```"),
        ({"status": "error", "reason": "no"}, "Action failed: 'no'"),
        ({"status": "skipped", "reason": "not needed"}, "The action was skipped: 'not needed'"),
        (
            {"status": "interrupted_by_human", "feedback": "stop"},
            'The user interrupted the action with the following feedback: "stop"',
        ),
    ],
)
def test_the_text_of_a_result_depends_on_its_status(fields: dict[str, Any], text: str) -> None:
    assert result_text(ToolResult(**fields)) == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"status": "error", "reason": "no"}, "no"),
        ({"status": "error", "reason": " "}, "(no output)"),
        ({"status": "error"}, "(no output)"),
        ({"status": "error", "reason": "no", "outputs": 0}, "no\n\nOutput: 0"),
        ({"status": "error", "reason": "no", "outputs": []}, "no\n\nOutput: []"),
        ({"status": "error", "reason": "no", "feedback": "stop"}, "no\n\nFeedback: stop"),
    ],
)
def test_an_error_is_returned_with_all_that_it_has(fields: dict[str, Any], text: str) -> None:
    assert returned_text(ToolResult(**fields)) == text


@pytest.mark.parametrize(
    ("fields", "is_only"),
    [
        ({"status": "success", "outputs": "text"}, True),
        ({"status": "error", "reason": "text"}, True),
        ({"status": "success", "outputs": "text", "reason": "why"}, False),
        ({"status": "error", "reason": "text", "outputs": 0}, False),
        ({"status": "error", "reason": "text", "feedback": "stop"}, False),
        ({"status": "skipped", "reason": "text"}, False),
        ({"status": "success", "outputs": "another"}, False),
    ],
)
def test_a_result_that_has_only_a_text_is_not_made_again(fields: dict[str, Any], is_only: bool) -> None:
    result = ToolResult(tool_call_id="a", tool_name="read", **fields)
    bare = with_only_text(result, "text")
    assert (bare is result) is is_only
    named = {"tool_call_id": "a", "tool_name": "read"}
    field = "outputs" if result.status == "success" else "reason"
    status = "success" if result.status == "success" else "error"
    assert bare.model_dump(exclude_defaults=True) == {**named, "status": status, field: "text"}
