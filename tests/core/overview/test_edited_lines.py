"""Lines that an edit adds and removes."""

from typing import Any

import pytest

from historyapp.core.overview.edited_lines import edited_lines

PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-old\n+new\n+more\n*** End Patch"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"old_string": "a\nb\nc", "new_string": "a\nB\nB\nc"}, (2, 1)),
        ({"old_str": "", "new_str": "a\nb"}, (2, 0)),
        ({"old_str": "a\nb", "new_str": ""}, (0, 2)),
        ({"old_string": "a", "new_string": "a"}, (0, 0)),
        ({"old_string": "a\na", "new_string": "a"}, (0, 1)),
        ({"edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": ""}]}, (1, 2)),
        ({"content": "a\nb\n"}, (2, 0)),
        ({"patch": PATCH}, (2, 1)),
        ({"diff": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b"}, (1, 1)),
        (PATCH, (2, 1)),
        ({"old_string": 3, "edits": "x"}, (0, 0)),
        (None, (0, 0)),
        ({"edits": [None, 4]}, (0, 0)),
    ],
)
def test_lines_are_counted_by_the_arguments_alone(arguments: Any, expected: tuple[int, int]) -> None:
    assert tuple(edited_lines(arguments)) == expected
