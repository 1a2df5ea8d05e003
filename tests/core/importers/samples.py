"""One small file of each format with every kind of content that the format can have."""

from typing import Any

from tests.core.importers.gemini_records import GEMINI_FACTS, GEMINI_LINES, GEMINI_MESSAGES
from tests.core.importers.reading import lines

CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
CHAT: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "u"}}],
    },
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL], "reasoning_content": "hm"},
    {"role": "tool", "tool_call_id": "a", "name": "look", "content": "here"},
    {"role": "assistant", "content": "<function=f>\n<parameter=p>1</parameter>\n</function>"},
    {"role": "user", "content": "EXECUTION RESULT of [f]:\nok"},
]
COMPLETION = {
    "id": "c",
    "model": "m",
    "created": 1742842885,
    "usage": {"prompt_tokens": 3},
    "choices": [{"message": CHAT[2], "finish_reason": "tool_calls"}, {"message": CHAT[4]}],
}
BLOCKS: list[Any] = [
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    {"type": "text", "text": "I search.", "citations": [{"url": "u"}]},
    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "x"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "s",
        "content": [{"type": "web_search_result", "url": "u"}],
    },
    {"type": "text", "text": "Found."},
    {"type": "tool_use", "id": "t", "name": "look", "input": {"at": 1}},
]
TURNS: list[Any] = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": BLOCKS},
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "is_error": True,
                "content": [{"type": "text", "text": "no"}],
            },
            {"type": "text", "text": "more"},
        ],
    },
]
MESSAGE = {"type": "message", "id": "m", "model": "claude", "content": BLOCKS, "usage": {"input_tokens": 3}}
SWE_AGENT = {
    "environment": "main",
    "trajectory": [
        {
            "action": "ls\n",
            "observation": "a",
            "response": "I list.\n```\nls\n```",
            "thought": "I list.",
            "state": '{"x": 1}',
        },
        {
            "action": "pwd",
            "observation": "b",
            "response": "Where?",
            "thought": "Where?",
            "execution_time": 0.5,
        },
        {"action": "submit", "observation": "diff", "response": "Done.", "thought": "Done."},
    ],
    "history": [
        {"role": "system", "content": "You help.", "message_type": "system_prompt"},
        {"role": "user", "content": "shown", "is_demo": True},
        {"role": "user", "content": "ISSUE:\nIt breaks", "message_type": "observation"},
        {"role": "assistant", "content": "I list.\n```\nls\n```", "thought": "I list.", "action": "ls\n"},
        {"role": "user", "content": "a\nbash-$", "message_type": "observation"},
        {
            "role": "assistant",
            "content": "Where?",
            "thought": "Where?",
            "action": "pwd",
            "tool_calls": [CALL],
        },
        {"role": "tool", "content": "b", "tool_call_ids": ["a"]},
    ],
    "info": {"exit_status": "submitted", "submission": "diff", "model_stats": {"api_calls": 3}},
    "replay_config": '{"agent": {"model": {"name": "gpt-4o"}}, "problem_statement": {"text": "It breaks"}}',
}
MINI_SWE_AGENT = {
    "trajectory_format": "mini-swe-agent-1.1",
    "instance_id": "x-1",
    "info": {
        "mini_version": "2.0",
        "exit_status": "Submitted",
        "config": {"model": {"model_name": "m"}},
        "traceback": "Traceback",
    },
    "messages": [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "Please solve this issue: It breaks"},
        {
            **CHAT[2],
            "extra": {
                "response": COMPLETION,
                "cost": 0.5,
                "timestamp": 1775812897.2,
                "actions": [{"command": "ls"}],
            },
        },
        {
            "role": "tool",
            "tool_call_id": "a",
            "content": "<returncode>1</returncode>",
            "extra": {"returncode": 1},
        },
        {"role": "user", "content": "Say it again.", "extra": {"interrupt_type": "FormatError"}},
        {"role": "assistant", "content": "THOUGHT: hm\n\n```mswea_bash_command\nls\n```"},
        {"role": "user", "content": "<returncode>0</returncode>\n<output>\n</output>"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted", "submission": "diff"}},
    ],
}
RESPONSE = {
    "id": "r",
    "created": 1738046713,
    "model": "claude",
    "choices": COMPLETION["choices"],
    "usage": {"x": 1},
}
METADATA = {
    "function_name": "look",
    "tool_call_id": "a",
    "model_response": RESPONSE,
    "total_calls_in_response": 1,
}
OPENHANDS_V0: list[Any] = [
    {
        "id": 0,
        "timestamp": "2025-01-27T22:44:56.9",
        "source": "user",
        "action": "message",
        "args": {"content": "hi"},
    },
    {"id": 1, "source": "agent", "action": "system", "args": {"content": "You help.", "tools": [{}]}},
    {"id": 2, "source": "agent", "action": "recall", "args": {"query": "x"}, "message": "Retrieving"},
    {
        "id": 3,
        "timestamp": "2025-01-27T22:45:13.7",
        "source": "agent",
        "action": "read",
        "tool_call_metadata": METADATA,
        "args": {"path": "/", "thought": "I look."},
    },
    {
        "id": 4,
        "source": "agent",
        "cause": 3,
        "observation": "read",
        "tool_call_metadata": METADATA,
        "content": "here",
        "extras": {"metadata": {"exit_code": 0}},
        "success": True,
    },
    {"id": 5, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "List."}},
    {"id": 6, "cause": 5, "observation": "run", "content": "no", "extras": {"metadata": {"exit_code": 2}}},
    {"id": 7, "source": "agent", "action": "message", "args": {"content": "Done."}},
    {"id": 8, "observation": "error", "content": "crashed", "extras": {}},
]
TOTALS = {"accumulated_cost": 0.5, "accumulated_token_usage": {"prompt_tokens": 9, "completion_tokens": 2}}


def event(kind: str, source: str, **fields: Any) -> dict[str, Any]:
    """An event of OpenHands V1."""
    return {"id": "e", "timestamp": "2026-06-16T05:39:18.8", "source": source, "kind": kind, **fields}


def message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


CONVERSATION = {"id": "conversation", "agent": {"llm": {"model": "m"}}}
OBSERVATION = {"content": [{"type": "text", "text": "no"}], "is_error": False, "exit_code": 2}
OPENHANDS_V1: list[Any] = [
    event("ConversationStateUpdateEvent", "environment", key="full_state", value=CONVERSATION),
    event("SystemPromptEvent", "agent", system_prompt={"type": "text", "text": "You help."}, tools=[{}]),
    event("MessageEvent", "user", llm_message=message("user", "hi")),
    event(
        "ConversationStateUpdateEvent",
        "environment",
        key="stats",
        value={"usage_to_metrics": {"default": TOTALS, "condenser": TOTALS}},
    ),
    event(
        "ActionEvent",
        "agent",
        thought=[{"type": "text", "text": "<think>hm</think>I look."}],
        reasoning_content="hm",
        thinking_blocks=[{"type": "thinking", "thinking": "hm", "signature": "s"}],
        action={"kind": "TerminalAction", "command": "ls"},
        tool_name="terminal",
        tool_call_id="a",
        tool_call={"id": "a", "name": "terminal", "arguments": '{"command": "ls"}'},
        llm_response_id="r",
    ),
    event(
        "ObservationEvent",
        "environment",
        tool_name="terminal",
        tool_call_id="a",
        action_id="e",
        observation=OBSERVATION,
    ),
    event("AgentErrorEvent", "agent", tool_name="t", tool_call_id="b", error="bad"),
    event("UserRejectObservation", "user", tool_name="t", tool_call_id="c", rejection_reason="no"),
    event("Condensation", "environment", summary="it went well", forgotten_event_ids=["e"]),
    event("MessageEvent", "agent", llm_message=message("assistant", "Done.")),
]
OUTPUT_ROW = {
    "instance_id": "x-1",
    "instruction": "Fix it",
    "metadata": {"agent_class": "CodeActAgent", "llm_config": {"model": "m"}},
    "metrics": {"accumulated_cost": 0.1},
    "history": OPENHANDS_V0[5:],
    "error": "stuck",
}
STATE = {
    "agent_id": "Helper-1",
    "task": "Fix it",
    "ai_profile": {"ai_name": "Helper", "ai_role": "helps"},
    "directives": {"constraints": []},
    "history": {
        "episodes": [
            {
                "action": {
                    "thoughts": {"observations": "o", "text": "I list.", "plan": ["p"]},
                    "use_tool": {"name": "ls", "arguments": {"at": "."}},
                    "use_tools": None,
                    "raw_message": {"role": "assistant", "content": "{}", "tool_calls": [CALL]},
                },
                "result": {"outputs": ["a"], "status": "success"},
                "summary": "listed",
            },
            {
                "action": {"thoughts": "I open.", "use_tool": {"name": "open", "arguments": {}}},
                "result": {
                    "reason": "no file",
                    "error": {"args": ["x"], "message": "m", "exception_type": "E", "repr": "E('x')"},
                    "status": "error",
                },
                "summary": None,
            },
            {
                "action": {"thoughts": "", "use_tool": {"name": "ask", "arguments": {}}},
                "result": {"feedback": "stop", "status": "interrupted_by_human"},
                "summary": "",
            },
            {
                "action": {"thoughts": "", "use_tool": {"name": "go", "arguments": {}}},
                "result": None,
                "summary": None,
            },
        ],
        "cursor": 3,
        "pending_user_feedback": ["hurry"],
    },
}


def exported(session: str, position: int, kind: str, **fields: Any) -> dict[str, Any]:
    """An entry's line in Playhead's own export."""
    at = f"2026-01-01T00:00:{position:02}+00:00"
    return {
        "session": session,
        "position": position,
        "kind": kind,
        **fields,
        "metadata": {},
        "created_at": at,
    }


EXPORT: list[Any] = [
    {
        "playhead": 1,
        "kind": "session",
        "id": "p",
        "title": "t",
        "agent": "a",
        "model": "m",
        "tags": ["x"],
        "settings": {"max_tokens": 7},
        "metadata": {"k": 1},
        "forked_from": None,
        "created_at": "2026-01-01T00:00:00+00:00",
        "status": "active",
    },
    exported("p", 1, "model_input", content="hi"),
    exported("p", 2, "model_output", tool_calls=[{"id": "a", "name": "n", "arguments": {}}]),
    exported("p", 3, "tool_results", results=[{"tool_call_id": "a", "status": "success", "outputs": 1}]),
    exported("p", 4, "rewind", to_position=1, spans=[["p", 1, 3]], reason="why", actor="bob"),
    exported("p", 5, "model_output", text="hello"),
    {
        "session": "p",
        "kind": "summary",
        "first_position": 2,
        "last_position": 3,
        "text": "tried",
        "strategy": "manual",
        "model": "",
        "key_points": ["k"],
        "level": 1,
    },
    {
        "playhead": 1,
        "kind": "session",
        "id": "q",
        "title": "fork",
        "forked_from": ["p", 1],
        "created_at": None,
    },
    exported("q", 2, "review", score=0.5, passed=True),
]

TOOLS = [{"name": "look", "input_schema": {}}]
DOCUMENTS: list[tuple[str, Any]] = [
    ("openai_chat", CHAT),
    ("openai_chat", {"messages": CHAT, "raw_messages": CHAT, "response": COMPLETION, "timestamp": 1.5}),
    ("openai_chat", [{"task_id": 1, "trial": 2, "reward": 1.0, "traj": CHAT}]),
    (
        "openai_chat",
        [
            {"request": {"messages": CHAT[:2]}, "response": COMPLETION},
            {"request": {"messages": CHAT}, "response": None},
        ],
    ),
    ("anthropic_messages", TURNS),
    ("anthropic_messages", {"system": [{"type": "text", "text": "s"}], "messages": TURNS, "tools": TOOLS}),
    (
        "anthropic_messages",
        [
            {"request": {"messages": TURNS[:1]}, "response": MESSAGE},
            {"request": {"messages": TURNS}, "response": {"error": "x"}},
        ],
    ),
    ("swe_agent", SWE_AGENT),
    ("mini_swe_agent", MINI_SWE_AGENT),
    ("mini_swe_agent", MINI_SWE_AGENT["messages"]),
    ("openhands", OPENHANDS_V0),
    ("openhands", OPENHANDS_V1),
    ("openhands", OUTPUT_ROW),
    ("state_json", STATE),
    ("gemini_cli", {**GEMINI_FACTS, "messages": GEMINI_MESSAGES}),
]
"""Formats whose files are one JSON value."""

LINES: list[tuple[str, list[Any]]] = [
    ("openai_chat", [{"messages": CHAT}, {"messages": CHAT[:2], "response": COMPLETION}]),
    ("anthropic_messages", [{"system": "s", "messages": TURNS}, {"system": "s", "messages": TURNS}]),
    ("openhands", OPENHANDS_V1),
    ("openhands", [OUTPUT_ROW, OUTPUT_ROW]),
    ("playhead_jsonl", EXPORT),
    ("gemini_cli", GEMINI_LINES),
]
"""Formats whose files are lines of JSON."""

FILES = [*DOCUMENTS, *((name, lines(*records)) for name, records in LINES)]
