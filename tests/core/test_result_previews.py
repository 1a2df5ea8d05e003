"""Previews of results, in every form that tools use."""

from typing import Any

import pytest

from historyapp.core.entries import ToolResult
from historyapp.core.failures import Check
from historyapp.core.result_previews import result_preview

CHUNK = "Chunk ID: 6a\nWall time: 0.1 seconds\nProcess exited with code 0\nOriginal token count: 3\nOutput:\n"
SCRIPT = {"type": "text", "text": "Script completed\nWall time 0.1 seconds\nOutput:\n"}
IMAGE = {"type": "image", "media_type": "image/png", "data": "AAAA"}


@pytest.mark.parametrize(
    ("outputs", "shown"),
    [
        ("two\nlines", "two lines"),
        ("", ""),
        (None, "(no output)"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a b"),
        ([SCRIPT, {"type": "text", "text": "total 8"}], "total 8"),
        ([IMAGE], "[image]"),
        ([{"type": "text", "text": "seen"}, IMAGE], "seen [image]"),
        ([{"type": "tool_reference", "tool_name": "AskUserQuestion"}], "AskUserQuestion"),
        ([{"type": "web_search_result", "title": "News", "url": "u", "encrypted_content": "x"}], "News"),
        ({"type": "bash", "content": [], "return_code": 0, "stdout": "37170\n", "stderr": ""}, "37170"),
        ({"content": [{"type": "text", "text": "of a server"}], "isError": False}, "of a server"),
        ({"type": "view", "content": "Hello"}, "Hello"),
        ({"is_file_update": False}, '{"is_file_update":false}'),
        ([1, 2], "[1,2]"),
        (f"{CHUNK}total 8", "total 8"),
        (CHUNK, "(no output)"),
        ("Output: On branch main\nclean", "On branch main clean"),
        ("Command: rm a\nDirectory: (root)\nOutput: (empty)\nExit Code: 0", "(no output)"),
        ("Output: a b\nError: (none)\nExit Code: 0\nSignal: 0\nBackground PIDs: (none)", "a b"),
        ("<returncode>0</returncode>\n<output>\ntotal 176\n</output>", "total 176"),
        ("\x1b[90m2:58 AM\x1b[0m Found 0 errors", "2:58 AM Found 0 errors"),
        ("Process substitution is not supported", "Process substitution is not supported"),
    ],
)
def test_a_success_shows_the_text_of_the_tool(outputs: Any, shown: str) -> None:
    assert result_preview(ToolResult(status="success", outputs=outputs)) == shown


def test_a_failure_shows_its_reason() -> None:
    assert result_preview(ToolResult(status="error", reason="no file")) == "Action failed: 'no file'"


def test_only_the_beginning_of_many_parts_is_read() -> None:
    class Forbidden(dict[str, Any]):
        def get(self, *_: Any) -> Any:
            raise AssertionError("this part need not be read")

    parts = [{"type": "text", "text": "word " * 300}, Forbidden()]
    result = ToolResult.model_construct(status="success", outputs=parts)
    assert len(result_preview(result)) == 200


def test_a_more_informative_line_is_shown_if_the_call_is_known() -> None:
    result = ToolResult(status="success", outputs=f"{CHUNK}one\ntwo\n")
    assert result_preview(result, Check("program", kind="shell")) == "two"
    assert result_preview(result, Check("viewer", kind="shell")) == "one two"


def test_a_report_in_json_and_a_note_of_a_cut_output_are_left_out() -> None:
    report = '{"output":"one\\ntwo\\n","metadata":{"exit_code":0,"duration_seconds":0.1}}'
    assert result_preview(ToolResult(status="success", outputs=report)) == "one two"
    cut = "Total output lines: 713\n\none\ntwo"
    assert result_preview(ToolResult(status="success", outputs=cut)) == "one two"
