"""Lines that an edit adds and removes."""

import json
from typing import Any

import pytest

from historyapp.core.edited_lines import edited_lines, lines_edited_by, writes_whole_file

PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-old\n+new\n+more\n*** End Patch"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"old_string": "a\nb\nc", "new_string": "a\nB\nB\nc"}, (2, 1)),
        ({"old_str": "", "new_str": "a\nb"}, (2, 0)),
        ({"old_str": "a\nb", "new_str": ""}, (0, 2)),
        ({"old_string": "a", "new_string": "a"}, (0, 0)),
        ({"old_string": "a\na", "new_string": "a"}, (0, 1)),
        ({"old_string": "a\nb\nc\nd\ne", "new_string": "A\nb\nc\nd\nx\nE"}, (3, 2)),
        ({"edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": ""}]}, (1, 2)),
        ({"content": "a\nb\n"}, (2, 0)),
        ({"patch": PATCH}, (2, 1)),
        ({"diff": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b"}, (1, 1)),
        (PATCH, (2, 1)),
        (f"const patch = {json.dumps(PATCH)};\nconst more = '-x';", (2, 1)),
        ({"old_string": 3, "edits": "x"}, (0, 0)),
        (None, (0, 0)),
        ({"edits": [None, 4]}, (0, 0)),
        ({"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]}, (2, 1)),
        ({"replacement_text": "a\nb", "start_line": 4, "end_line": 6}, (2, 3)),
        ({"replacement_text": "a", "start_line": "4"}, (1, 0)),
    ],
)
def test_lines_are_counted_by_the_arguments_alone(arguments: Any, expected: tuple[int, int]) -> None:
    assert tuple(edited_lines(arguments)) == expected


@pytest.mark.parametrize(
    ("arguments", "is_whole"),
    [
        ({"file_path": "a", "content": "a"}, True),
        ("*** Begin Patch\n*** Add File: a\n+one\n*** End Patch", True),
        ({"input": "*** Begin Patch\n*** Add File: a\n+one\n*** Add File: b\n*** End Patch"}, False),
        ({"path": "a", "insert_text": "a"}, False),
        ({"path": "a", "old_string": "a", "content": "b"}, False),
        (PATCH, False),
        (None, False),
    ],
)
def test_a_file_written_whole_is_distinguished_from_a_change(arguments: Any, is_whole: bool) -> None:
    assert writes_whole_file(arguments) is is_whole


def test_the_edit_command_of_swe_agent_replaces_lines() -> None:
    assert lines_edited_by("edit 3:4\nx = 1\ny = 2\nz = 3\nend_of_edit\n") == (3, 2)
    assert lines_edited_by("edit notes.txt\n") is None
    assert lines_edited_by("edit\nx = 1\ny = 2\nend_of_edit\n") == (2, 0)
