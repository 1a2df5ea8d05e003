"""Commands in a shell: what the badge says about the exit code."""

import pytest

from dashboard.rendering.blocks import Folder
from dashboard.tools import draw_call
from dashboard.tools.base import CallBlocks, RecordedCall
from historyapp.core.entries import ToolResult


@pytest.mark.parametrize(
    ("command", "reason", "badge", "is_bad"),
    [
        ("grep x a", "Exit code 1", "exit 1, not a failure", False),
        (
            "find . | xargs grep x",
            "<returncode>123</returncode>\n<output>\n</output>",
            "exit 123, not a failure",
            False,
        ),
        ("grep x a", "Exit code 2\ngrep: a: No such file or directory", "exit 2", True),
        ("make", "Exit code 1", "exit 1", True),
    ],
)
def test_a_search_that_found_nothing_is_no_failure(
    command: str, reason: str, badge: str, *, is_bad: bool
) -> None:
    result = ToolResult(status="error", reason=reason)
    card = draw_call(RecordedCall("bash", {"command": command}, result), CallBlocks(Folder(), 0))
    assert (card.badge, card.is_bad) == (badge, is_bad)
