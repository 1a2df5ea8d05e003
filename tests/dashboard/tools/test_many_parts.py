"""Results of many parts are shown with few blocks."""

from dashboard.rendering.blocks import Folder
from dashboard.tools import draw_call
from dashboard.tools.base import MAX_PARTS, CallBlocks, RecordedCall
from historyapp.core.entries import ToolResult


def test_the_texts_after_the_first_ones_are_one_block() -> None:
    texts = [f"x{number}" for number in range(MAX_PARTS + 30)]
    outputs = [{"type": "text", "text": text} for text in texts]
    call = RecordedCall("find", {}, ToolResult(status="success", outputs=outputs))
    shown = [block.text for block in draw_call(call, CallBlocks(Folder(), 0)).response]
    assert shown == [*texts[:MAX_PARTS], "\n\n".join(texts[MAX_PARTS:])]
