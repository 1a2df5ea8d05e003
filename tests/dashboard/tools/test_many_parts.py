"""Results of many parts are shown with few blocks, and long arguments by the generic view."""

from typing import Any

import pytest

from dashboard.rendering.blocks import Folder
from dashboard.tools import draw_call, view_of
from dashboard.tools.base import MAX_PARTS, CallBlocks, RecordedCall
from historyapp.core.entries import ToolResult
from historyapp.core.text import MAX_READ


def test_the_texts_after_the_first_ones_are_one_block() -> None:
    texts = [f"x{number}" for number in range(MAX_PARTS + 30)]
    outputs = [{"type": "text", "text": text} for text in texts]
    call = RecordedCall("find", {}, ToolResult(status="success", outputs=outputs))
    shown = [block.text for block in draw_call(call, CallBlocks(Folder(), 0)).response]
    assert shown == [*texts[:MAX_PARTS], "\n\n".join(texts[MAX_PARTS:])]


@pytest.mark.parametrize(
    ("name", "arguments", "view"),
    [
        ("TodoWrite", {"todos": [{"content": "TEXT", "status": "pending"}]}, "plan"),
        ("AskUserQuestion", {"question": "TEXT", "options": ["a"]}, "question"),
        ("Edit", {"file_path": "/a.py", "old_string": "TEXT", "new_string": "b"}, "edit"),
    ],
)
def test_long_arguments_are_shown_by_the_generic_view(
    name: str, arguments: dict[str, Any], view: str
) -> None:
    def with_text(value: Any, text: str) -> Any:
        if isinstance(value, dict):
            return {key: with_text(item, text) for key, item in value.items()}
        return (
            [with_text(item, text) for item in value]
            if isinstance(value, list)
            else value.replace("TEXT", text)
        )

    assert view_of(RecordedCall(name, with_text(arguments, "a b"))).name == view
    long = with_text(arguments, "ab " * (MAX_READ // 3 + 1))
    assert view_of(RecordedCall(name, long)).name == "default"
    assert view_of(RecordedCall(f"mcp__server__{name}", long)).name == "mcp"


def test_the_edits_of_a_step_are_compared_up_to_a_limit_together() -> None:
    """A page with 400 edits of 600 lines in another order took 4.5 to 6.5 s each time."""
    lines = [f"{number}" for number in range(100)]
    edit = {"old_string": "\n".join(lines), "new_string": "\n".join(lines[::-1])}
    folder, left = Folder(), list[int]()
    for index, name in enumerate(["Edit", "other"] * 20):
        folder.work.comparisons = min(folder.work.comparisons, 2_500)
        draw_call(RecordedCall(name, {"file_path": "/a.py", **edit}, None), CallBlocks(folder, index))
        left.append(folder.work.comparisons)
    assert 0 < left[0] < 2_500
    assert left[1] < left[0]
    assert left[-1] == 0
    assert all(block.text.count("\n") >= 198 for block in folder.blocks.values())
