"""A session of Gemini CLI with every kind of record, as a document and as lines."""

from typing import Any

RESPONSES: list[Any] = [
    {"functionResponse": {"id": "a", "name": "read_file", "response": {"output": "here"}}},
    {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
]
GEMINI_CALLS: list[Any] = [
    {"id": "a", "name": "read_file", "args": {"file_path": "a.py"}, "status": "success", "result": RESPONSES},
    {"id": "b", "name": "look", "args": {}, "status": "error", "result": None, "resultDisplay": "no tool"},
    {"id": "c", "name": "look", "args": {}, "status": "cancelled", "result": RESPONSES[:1]},
    {"id": "d", "name": "look", "args": {}, "status": "executing"},
]
GEMINI_MESSAGES: list[Any] = [
    {"id": "1", "timestamp": "2026-01-10T02:08:26.1Z", "type": "user", "content": [{"text": "Fix it"}]},
    {"id": "2", "timestamp": "2026-01-10T02:08:27.1Z", "type": "info", "content": "update available"},
    {
        "id": "3",
        "timestamp": "2026-01-10T02:08:35.6Z",
        "type": "gemini",
        "content": "I look.",
        "thoughts": [{"subject": "Reading", "description": "The file first."}],
        "tokens": {"input": 90, "output": 5, "cached": 60, "thoughts": 3, "tool": 2, "total": 100},
        "model": "gemini-2.5-pro",
        "toolCalls": GEMINI_CALLS,
    },
    {"id": "4", "type": "gemini", "content": "Done.", "model": "gemini-2.5-pro", "tokens": None},
]
GEMINI_FACTS = {"sessionId": "s", "projectHash": "p", "startTime": "2026-01-10T02:08:26.1Z", "kind": "main"}
GEMINI_LINES: list[Any] = [
    GEMINI_FACTS,
    *GEMINI_MESSAGES[:2],
    {**GEMINI_MESSAGES[2], "toolCalls": []},
    {"$set": {"lastUpdated": "2026-01-10T02:08:36Z"}},
    *GEMINI_MESSAGES[2:],
    {"$rewindTo": "4"},
    {"id": "5", "type": "user", "content": "Go on"},
    {"$set": {"messages": [{"id": "6", "type": "user", "content": "summary"}, {"id": "5", "type": "user"}]}},
    {"id": "7", "type": "gemini", "content": "Well.", "model": "gemini-2.5-pro"},
]
