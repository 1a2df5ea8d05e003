"""The facts of a result that the row of its step shows."""

import json
import time
from typing import Any

import pytest

from historyapp.core.call_subjects import KINDS
from historyapp.core.failures import Check, check_of
from historyapp.core.result_facts import call_figures, result_fact

NUMBERED = "".join(f"{number:6}→line\n" for number in range(1, 215))
PLAIN = "def a():\n    pass\n"
UPDATED = "The file /a/b.py has been updated."
ADDED = "*** Begin Patch\n*** Add File: a.py\n+one\n+two\n*** End Patch"
CHANGED = "*** Begin Patch\n*** Update File: a.py\n@@\n-one\n+two\n*** End Patch"
TODOS = [{"content": "a", "status": "pending"}, {"content": "b", "status": "pending"}]

VITEST = """
 Test Files  1 passed (1)
      Tests  \x1b[31m1 failed\x1b[39m | \x1b[32m3 passed\x1b[39m (4)
   Start at  12:00:01
   Duration  205ms (transform 20ms, setup 0ms)

"""
JEST = """Test Suites: 1 passed, 1 total
Tests:       3 passed, 3 total
Snapshots:   0 total
Time:        0.51 s
Ran all test suites.
"""


def fact(name: str, arguments: Any, text: str) -> str:
    check = check_of(name, arguments)
    return result_fact(check._replace(figures=call_figures(check.kind, arguments)), text)


@pytest.mark.parametrize(
    ("arguments", "text", "shown"),
    [
        ({}, NUMBERED, "lines 1–214"),
        ({"offset": 80, "limit": 3}, "    80\ta\n    81\tb\n    82\tc\n", "lines 80–82"),
        ({"view_range": [10, 11]}, PLAIN, "lines 10–11"),
        ({"view_range": [10, -1]}, PLAIN, "lines 10–11"),
        ({"start_line": 5, "end_line": 900}, PLAIN, "lines 5–6"),
        ({"offset": 7, "limit": 1}, "one", "line 7"),
        ({"offset": True, "limit": 1}, PLAIN, ""),
        ({}, PLAIN, ""),
        ({}, "[File: a.py (90 lines total)]\n<x>", ""),
        ({}, "[File: a.py (1 lines total)]\n1:\n(Open file: a.py)\nbash-$", "1 line"),
        ({}, "The file content has been truncated.\nStatus: Showing lines 1-25 of 212 total", "lines 1–25"),
        ({}, "Here's the files and directories up to 2 levels deep in /a:\n/a/\n/a/b.py\n/a/c.py", "2 paths"),
    ],
)  # fmt: skip
def test_a_read_shows_its_lines(arguments: dict[str, Any], text: str, shown: str) -> None:
    assert fact("Read", {"file_path": "/a/b.py", **arguments}, text) == shown


@pytest.mark.parametrize(
    ("arguments", "text", "shown"),
    [
        ({"file_path": "a", "old_string": "x\ny", "new_string": "z"}, UPDATED, "+1 −2"),
        ({"file_path": "a", "old_string": "", "new_string": "z"}, UPDATED, "+1"),
        ({"file_path": "a", "content": "x\n" * 80}, "File created successfully at: a", "new file, 80 lines"),
        ({"file_path": "a", "content": "x"}, UPDATED, "1 line written"),
        (f"tools.apply_patch({json.dumps(CHANGED)})", "{}", "+1 −1"),
        (ADDED, "Success. Updated the following files:\nA a.py\n", "new file, 2 lines"),
        ({"file_path": "a", "old_string": "x", "new_string": "z"}, "String to replace was not found.", ""),
        ({"file_path": "a", "old_string": "x", "new_string": "x"}, UPDATED, ""),
        ({"command": "create a.py"}, "[File: a.py (1 lines total)]\n1:\n(Open file: a.py)", "1 line"),
    ],
)
def test_an_edit_shows_the_lines_it_changed(arguments: Any, text: str, shown: str) -> None:
    assert fact("Edit", arguments, text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a/b.go:1:x\na/b.go:7:y\nc.go:2:z", "3 matches in 2 files"),
        ("src\\a.go:1:x\nD:\\b\\c.go:2:y", "2 matches in 2 files"),
        ("12:x\n14:y", "2 matches"),
        ("a/b.go\nc.go\nd.go\n(Results are truncated. Use a more specific path.)", "3+ files"),
        ("\n[cut]\na/b.go\nc.go", "2 files"),
        ("a/b.go\nc.go\nAnd: others", ""),
        ("(cut)\n  7:x\n 12\ty", "2 matches"),
        ("a/b.go:1:x", ""),
        ("Found 17 files\na.go\nb.go", "17 files"),
        ("Found 1 file\nsrc/a.go", "src/a.go"),
        ("a.go:3\nb.go:4\n\nFound 7 total occurrences across 2 files.", "7 matches in 2 files"),
        ('Found 2 matches for pattern "x":\n---\nFile: a\nL1: x\nL2: x\n---', "2 matches in 1 file"),
        ('Found 6 file(s) matching "*" within /a:\n/a/b', "6 files"),
        ("No matches found", "no matches"),
        ('No files found matching pattern "*.png"', "no files"),
        ("Some words that were found.\nAnd more of them", ""),
        ("a.go:1:x\n" * 9_000, "6,666+ matches in 1 file"),
    ],
)  # fmt: skip
def test_a_search_shows_the_number_of_matches(text: str, shown: str) -> None:
    assert fact("Grep", {"pattern": "x"}, text) == shown


@pytest.mark.parametrize(
    ("command", "text", "shown"),
    [
        ("go test ./...", "=== RUN\nok  \thooks\t3.1s\n\n", "ok  \thooks\t3.1s"),
        ("make", "done\n}\n-----\n", "done"),
        ("make", "\x1b[32mbuilt\x1b[0m\nShell cwd was reset to /a", "built"),
        ("make", "built\n(Open file: n/a)\n(Current directory: /a)\nbash-$", "built"),
        ("make", '{"a": 1}', ""),
        ("pnpm test", VITEST, "Tests  1 failed | 3 passed (4)"),
        ("npm test", JEST, "Tests:       3 passed, 3 total"),
        ("pytest", "a.py ...\n=== 3 passed in 0.1s ===", "=== 3 passed in 0.1s ==="),
        ("pytest -q; date", "3 passed in 0.1s\nMonday", "Monday"),
        ("time make", "built\nTime: 3 s", "Time: 3 s"),
        ("time", "Time: 3 s", "Time: 3 s"),
        ("cat a.txt", "first\nlast", ""),
        ("rm a", "Your command ran successfully and did not produce any output.", "(no output)"),
        ("open a.py", "[File: a.py (9 lines total)]\n4:x\n5:y\n(4 more lines below)", "lines 4–5"),
        ("edit 4:5\nx\nend_of_edit", "[File: a.py]\n4:x\nFile updated. Please review the changes", "+1 −2"),
        ("./run", "Your name is test.///PROCESS-DONE:0:PROCESS-DONE///", "Your name is test."),
        ("make", "", ""),
    ],
)
def test_a_command_shows_the_last_informative_line(command: str, text: str, shown: str) -> None:
    assert fact("Bash", {"command": command}, text) == shown


def test_a_list_of_tasks_shows_the_number_of_tasks() -> None:
    assert fact("TodoWrite", {"todos": TODOS}, "Todos have been modified successfully.") == "2 tasks"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Task #12 created successfully: Look around", "task 12"),
        ("Updated task #12 status", "status updated"),
        ("Updated task #12 owner, status", "owner, status updated"),
        ("Updated task #12 status\nAll tasks are done.", "status updated"),
        ("No tasks found", ""),
    ],
)
def test_a_single_task_shows_fields_that_the_call_does_not_have(text: str, shown: str) -> None:
    check = Check(rules="", kind="plan")
    assert result_fact(check, text) == shown


def test_a_window_of_swe_agent_is_read_without_its_cursor_marks() -> None:
    window = "[File: /a.py (9 lines total)]\n<<<<< START CURSOR >>>>>\n4:x\n<<<<< END CURSOR >>>>>\n5:y\n6:z"
    assert result_fact(Check(rules="", kind="read"), window) == "lines 4–6"
    written = call_figures("edit", {"command": "edit\nx\ny\nend_of_edit"})
    assert result_fact(Check(rules="", kind="edit", figures=written), window) == "2 lines written"


def test_other_tools_have_no_fact() -> None:
    assert fact("look", {"at": 1}, "a.go:1:x\nb.go:2:x") == ""


@pytest.mark.parametrize("text", ["a", "\n", "a:", "1:", "1→\n", "Found ", "/a\n", " ", "<", "\x1b["])
def test_a_text_of_a_megabyte_takes_milliseconds(text: str) -> None:
    hostile = text * (1_000_000 // len(text))
    started = time.thread_time()
    for kind in KINDS:
        result_fact(Check("program", kind=kind, figures=(1, 2)), hostile)
    assert time.thread_time() - started < 0.5
