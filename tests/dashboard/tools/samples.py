"""Calls in the shapes that agents record, by the name of the view that shows them."""

from typing import Any

from dashboard.tools.base import RecordedCall
from historyapp.core.entries import ToolResult


def called(name: str, arguments: Any, outputs: Any = None, **fields: Any) -> RecordedCall:
    """A call whose result is a success, unless ``fields`` say otherwise."""
    result = ToolResult.model_validate({"status": "success", "outputs": outputs, **fields})
    return RecordedCall(name, arguments, result)


PATCH = """*** Begin Patch
*** Update File: a.py
@@ def f():
-    return 1
+    return 2
*** Add File: b.py
+x = 1
*** End Patch"""
DIFF = """diff --git a/src/a.py b/src/a.py
index 1..2 100644
--- a/src/a.py
+++ b/src/a.py
@@ -40,3 +40,3 @@ def f():
 before
-old
+new
 after
"""
RECORDED = "@@ -3,3 +3,3 @@\n a\n-x\n+y\n z"
SUCCESS = ToolResult(status="success", outputs="updated")
TODOS = [
    {"content": "Look", "status": "completed"},
    {"content": "Fix", "status": "in_progress", "activeForm": "Fixing"},
    {"content": "Test", "status": "pending"},
]
COLOURS = {
    "question": "Which colour?",
    "header": "Colour",
    "multiSelect": False,
    "options": [
        {"label": "Red", "description": "like fire"},
        {"label": "Blue", "description": "like water"},
    ],
}
SAMPLES: dict[str, list[RecordedCall]] = {
    "edit": [
        called("Edit", {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}, "updated"),
        called(
            "Edit", {"file_path": "a.py", "old_string": "x", "new_string": "y"}, status="error", reason="no"
        ),
        called("MultiEdit", {"file_path": "a", "edits": [{"old_string": "b", "new_string": "c"}]}),
        called("Write", {"file_path": "a.py", "content": "import os\n"}, "created"),
        called("str_replace_editor", {"command": "create", "path": "a", "file_text": "hello"}, DIFF),
        called(
            "str_replace_editor", {"command": "insert", "path": "a", "insert_line": 3, "new_str": "hello"}
        ),
        called("edit", {"replacement_text": "one\ntwo", "start_line": 7, "end_line": 8}),
        RecordedCall("Write", {"file_path": "a.py", "content": "y\nz"}, SUCCESS, RECORDED),
        RecordedCall("Edit", {"file_path": "a.py", "old_string": "x", "new_string": "y"}, SUCCESS, RECORDED),
        RecordedCall("Edit", {"file_path": "a.py", "old_string": "b", "new_string": "c"}, SUCCESS, RECORDED),
        called("apply_patch", PATCH, "Success"),
        called("apply_patch", {"input": PATCH}),
        called("shell", {"command": ["apply_patch", PATCH]}, "Exit code: 0\nOutput:\nSuccess"),
        called("apply_patch", {"changes": {"a.py": {"type": "add", "content": "x = 1\n"}}}),
        called("apply_patch", {"changes": [{"path": "a.py", "diff": "@@ -1 +1 @@\n-x\n+y"}]}),
        called("patch", {"diff": DIFF}),
    ],
    "shell": [
        called("Bash", {"command": "ls -la", "description": "List"}, "\x1b[32ma\x1b[0m"),
        called("Bash", {"command": "go test"}, status="error", reason="Exit code 1\nFAIL"),
        called("exec_command", {"cmd": "ls", "workdir": "/w"}, "Wall time: 0.1 seconds\nOutput:\na"),
        called(
            "shell", {"command": ["bash", "-lc", "ls | wc"], "timeout_ms": 5}, '{"exit_code":0,"output":"a"}'
        ),
        called("bash", {"command": "x"}, "<returncode>2</returncode>\n<output>\nbad\n</output>"),
        called("bash_code_execution", {"command": "x"}, {"stdout": "a", "stderr": "b", "return_code": 0}),
        called("exec", "const r = await tools.exec_command({})", [{"type": "text", "text": "done"}]),
        called("bash", {"command": "git diff"}, DIFF),
        RecordedCall("bash", {"command": "sleep 9"}),
    ],
    "question": [
        called("AskUserQuestion", {"questions": [COLOURS]}, 'User has answered: "Which colour?"="Blue".'),
        called("AskUserQuestion", {"questions": [COLOURS, COLOURS]}, status="error", reason="not answered"),
        called("request_user_input", {"questions": [{"id": "why", "question": "Why?"}]}, "because"),
        called("ask_user", {"question": "Go on?", "choices": ["Yes", "No"]}, "Yes"),
        called("ask_followup_question", {"question": "Go on?", "follow_up": [{"text": "Yes"}]}, "Yes"),
    ],
    "plan": [
        called("TodoWrite", {"todos": TODOS}, "Todos have been modified successfully. " * 20),
        called("update_plan", {"plan": [{"step": "Look", "status": "completed"}], "explanation": "why"}),
        called("ExitPlanMode", {"plan": "# Plan\n\n- one"}),
        called("think", {"thought": "hm"}, ""),
    ],
    "subagent": [
        called(
            "Task",
            {"description": "Look", "prompt": "Find it.", "subagent_type": "Explore"},
            "# Report\n\n- a",
        ),
        called("spawn_agent", {"message": "Look"}, [{"type": "text", "text": "found"}]),
    ],
    "read": [
        called("Read", {"file_path": "a.py", "offset": 3}, "     3→import os\n     4→\n     5→x = 1"),
        called("Read", {"file_path": "a.py"}, "plain text\n<system-reminder>\nBe good.\n</system-reminder>"),
        called("open", {"path": "a.py"}, "[File: a.py (2 lines total)]\n1:x\n2:y\n(Current directory: /w)"),
        called("view", {"command": "view", "path": "a"}, {"content": "hello", "num_lines": 1}),
        called(
            "Read", {"file_path": "a.png"}, [{"type": "image", "media_type": "image/png", "data": "broken"}]
        ),
    ],
    "search": [
        called(
            "Grep",
            {"pattern": "def f", "path": "src", "-n": True},
            "src/a.py:3:def f\nsrc/a.py-4-  x\nb:1:def f",
        ),
        called("Glob", {"pattern": "**/*.py"}, "a.py\nb.py"),
        called("mcp__linear__list_issues", {"query": "ENT-96"}, '{"issues": [{"id": "bb2f-9808-610e"}]}'),
        called("Grep", {"pattern": "("}, status="error", reason="unclosed group"),
    ],
    "web": [
        called("WebFetch", {"url": "https://a.example", "prompt": "what"}, "# Title\n\n**bold**"),
        called(
            "web_search",
            {"query": "x"},
            [{"type": "web_search_result", "title": "T", "url": "https://b.example"}],
        ),
    ],
    "mcp": [called("mcp__linear__list", {"team": "core"}, [{"type": "text", "text": '{"issues": [1, 2]}'}])],
    "default": [
        called("get_user", {"id": 7}, '{"name": {"first": "Mia"}, "tags": ["a", "b"]}'),
        called("search_flights", {"date": "x"}, [{"no": 1, "from": "JFK"}, {"no": 2, "from": "SEA"}]),
        called("apply_patch", "*** Begin Patch\nno patch follows"),
        called("x", {}, [{"type": "image", "media_type": "image/gif", "data": "R0lGODlhAQABAAAAACw="}]),
        called("x", {f"k{n}": n for n in range(50)}, {"deep": [[[[[[[[[[1]]]]]]]]]]}),
        RecordedCall("x", None),
    ],
}
