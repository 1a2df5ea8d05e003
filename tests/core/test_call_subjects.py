"""What a tool call is about follows from the shape of its arguments, then from the tool's name."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.call_subjects import KINDS, CallSubject, Kind, call_subject, opened_file

PATCH = "*** Begin Patch\n*** Update File: a/b.py\n@@\n-x\n+y\n*** Add File: c.md\n+z\n*** End Patch"
TODOS = [
    {"content": "Read it", "status": "completed"},
    {"content": "Fix it", "status": "in_progress", "activeForm": "Fixing it"},
    {"content": "Test it", "status": "pending"},
]


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "target"),
    [
        ("Bash", {"command": "go test ./...", "description": "Run tests"}, "shell", "go test ./..."),
        ("shell", {"command": ["bash", "-lc", "ls -l"], "workdir": "/"}, "shell", "ls -l"),
        ("shell", {"command": ["git", "status"]}, "shell", "git status"),
        ("exec_command", {"cmd": "pwd", "yield_time_ms": 1}, "shell", "pwd"),
        ("exec", "const r = 1", "shell", "const r = 1"),
        ("exec", "const r = await tools.mcp__open_pull({n:1});", "shell", "mcp__open_pull({n:1});"),
        ("exec", 'const r = await tools.exec_command({cmd:"ls \\"a\\"",workdir:"/"});', "shell", 'ls "a"'),
        ("Bash", {"command": """echo 'cmd: "ls"'"""}, "shell", """echo 'cmd: "ls"'"""),
        ("Bash", {"command": "env PATH=/a:$PATH A='x y' B=\"$HOME\" node --run x"}, "shell", "node --run x"),
        ("Bash", {"command": "DB_HOST=1.2.3.4 pnpm dev"}, "shell", "pnpm dev"),
        ("Bash", {"command": "A=1\nls"}, "shell", "A=1 ls"),
        ("Bash", {"command": "A=1 B=2 && ls"}, "shell", "A=1 B=2 && ls"),
        ("Bash", {"command": "A=1 \\\n  ls -l"}, "shell", "ls -l"),
        ("Bash", {"command": "env \\\n  A=1 \\\n  B=2 \\\n  npm test"}, "shell", "npm test"),
        ("Bash", {"command": "A=1 \\\n"}, "shell", "A=1 \\"),
        ("Bash", {"command": "tmp=$(mktemp -d) && ls"}, "shell", "tmp=$(mktemp -d) && ls"),
        ("Bash", {"command": "env"}, "shell", "env"),
        (
            "javascript_tool",
            {"action": "javascript_exec", "tabId": "1", "text": "f()"},
            "other",
            "javascript_exec f()",
        ),
        ("computer", {"action": "screenshot", "tabId": "1"}, "other", "screenshot"),
        ("update_issue", {"id": "bb2ffcd2-8b5a-4e9a-972a-f000bc7b0fcc", "title": "T"}, "other", "T"),
        ("wait", {"cell_id": "7", "yield_time_ms": 30_000}, "other", "cell 7"),
        ("Read", {"file_path": "/a.py", "limit": 3}, "read", "/a.py"),
        ("str_replace_editor", {"command": "view", "path": "a.py"}, "read", "a.py"),
        ("str_replace_editor", {"command": "create", "path": "a.py", "file_text": "x"}, "edit", "a.py"),
        ("rm", {"path": "src"}, "edit", "src"),
        ("mcp__open_files__delete_file", {"path": "a.py"}, "edit", "a.py"),
        ("fs.createFolder", {"path": "src"}, "edit", "src"),
        ("upload", {"path": "a.zip"}, "other", "a.zip"),
        ("openapi_upload", {"path": "a.zip"}, "other", "a.zip"),
        ("readiness_check", {"path": "a.zip"}, "other", "a.zip"),
        ("copy_file", {"path": "a.zip"}, "other", "a.zip"),
        ("getFile", {"path": "a.py"}, "read", "a.py"),
        ("READFILE", {"path": "a.py"}, "read", "a.py"),
        ("inspect_file", {"path": "a.py"}, "read", "a.py"),
        ("fileWriter", {"path": "a.py"}, "edit", "a.py"),
        ("modify_file", {"path": "a.py"}, "edit", "a.py"),
        ("ls", {"path": "src"}, "read", "src"),
        ("viewImage", {"path": "a.png"}, "read", "a.png"),
        ("mcp__writer__get_file", {"file": "a.py"}, "read", "a.py"),
        ("Edit", {"file_path": "/a.py", "old_string": "x", "new_string": "y"}, "edit", "/a.py"),
        ("Write", {"file_path": "/a.py", "content": "x"}, "edit", "/a.py"),
        ("apply_patch", PATCH, "edit", "a/b.py"),
        ("apply_patch", "[REDACTED_INPUT len=981]", "edit", "[REDACTED_INPUT len=981]"),
        ("shell", {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]}, "edit", "a/b.py"),
        ("exec", f"const patch = {json.dumps(PATCH)};\ntools.apply_patch(patch)", "edit", "a/b.py"),
        ("shell", {"command": 'create "a.py"\n'}, "edit", "a.py"),
        ("shell", {"command": "edit 1:1\nx = 1\nend_of_edit\n"}, "edit", "edit 1:1"),
        ("shell", {"command": "edit notes"}, "shell", "edit notes"),
        ("shell", {"command": "str_replace_editor create /a.py --file_text x"}, "edit", "/a.py"),
        ("shell", {"command": "str_replace_editor view /a.py"}, "read", "/a.py"),
        ("create", {"filename": "a.py"}, "edit", "a.py"),
        ("edit", {"search": "x", "replace": "y"}, "edit", ""),
        ("edit", {"replacement_text": "y", "start_line": 1, "end_line": 1}, "edit", ""),
        ("Grep", {"pattern": "EnsureSetup", "path": "/src", "glob": "*.go"}, "search", "EnsureSetup"),
        ("search_tools", {"queries": ["refunds"]}, "search", "refunds"),
        ("web_search", {"query": "weather"}, "web", "weather"),
        ("WebFetch", {"url": "https://example.org", "prompt": "read"}, "web", "https://example.org"),
        ("ExitPlanMode", {"plan": "## Plan: scroll\n\n- one"}, "plan", "Plan: scroll"),
        (
            "AskUserQuestion",
            {"questions": [{"question": "Which colour?", "options": []}]},
            "other",
            "Which colour?",
        ),
        ("TodoWrite", {"todos": TODOS}, "plan", "1 of 3 done · Fixing it"),
        ("update_plan", {"plan": []}, "plan", ""),
        ("think", {"thought": "hm"}, "plan", "hm"),
        ("task_tracker", {"command": "view"}, "plan", ""),
        ("TaskUpdate", {"taskId": "3", "status": "in_progress"}, "plan", "task 3 in progress"),
        ("TaskUpdate", {"taskId": "3", "subject": "Look"}, "plan", "Look"),
        ("Task", {"description": "Explore", "prompt": "Look around"}, "agent", "Explore"),
        ("get_user_details", {"user_id": "mia_3668"}, "other", "mia_3668"),
        ("list_all_airports", {}, "other", ""),
        ("calculate", "1 + 1", "other", "1 + 1"),
    ],
)
def test_the_arguments_show_what_a_call_is_about(name: str, arguments: Any, kind: Kind, target: str) -> None:
    assert call_subject(name, arguments)[:2] == (kind, target)


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        ({"file_path": "/a.py"}, ("/a.py",)),
        (PATCH, ("a/b.py", "c.md")),
        (f"const patch = {json.dumps(PATCH)};\ntools.apply_patch(patch)", ("a/b.py", "c.md")),
        ({"changes": [{"path": "x.txt", "kind": "add"}, {"path": "y.txt"}]}, ("x.txt", "y.txt")),
        ({"changes": {"x.txt": {"add": ""}}}, ("x.txt",)),
        ({"patch": "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b"}, ("x.py",)),
        ({"command": "cat a.py"}, ()),
    ],
)
def test_the_files_that_a_call_names(arguments: Any, files: tuple[str, ...]) -> None:
    assert call_subject("apply_patch", arguments).files == files


@pytest.mark.parametrize(
    ("name", "arguments", "file"),
    [
        ("open", {"path": "a.py", "line_number": 3}, "a.py"),
        ("create", {"filename": "a.py"}, "a.py"),
        ("shell", {"command": 'open "src/a.py" 1474\n'}, "src/a.py"),
        ("shell", {"command": "create a.py"}, "a.py"),
        ("shell", {"command": "openssl version"}, ""),
        ("Bash", {"command": "open index.html"}, ""),
        ("open", "a.py", ""),
    ],
)
def test_the_file_that_a_later_edit_changes(name: str, arguments: Any, file: str) -> None:
    assert opened_file(name, arguments) == file


_words = st.sampled_from(
    [
        "command",
        "cmd",
        "path",
        "file_path",
        "pattern",
        "query",
        "todos",
        "plan",
        "changes",
        "edits",
        "url",
        "x",
    ]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=3),
    max_leaves=8,
)


@given(st.text(max_size=20), values | st.dictionaries(_words, values))
def test_any_arguments_give_a_subject_of_bounded_length(name: str, arguments: Any) -> None:
    subject = call_subject(name, arguments)
    assert isinstance(subject, CallSubject)
    assert subject.kind in KINDS
    assert all(len(text) <= 200 for text in (subject.target, *subject.files))
    assert len(subject.files) <= 20
