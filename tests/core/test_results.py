"""Results as text."""

from typing import Any

import pytest

from historyapp.core.entries import ToolResult
from historyapp.core.results import result_text


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
