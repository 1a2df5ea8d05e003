"""Examples for the OpenAPI document. One agent's run: it fixes a test in a parser."""

from typing import Any

SESSION = "0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d"
AT = "2026-01-31T09:30:00Z"
LATER = "2026-01-31T09:30:02.5Z"
CAP = {
    "subject": "project", "session": None, "key": None, "period": "day", "limit": 5.0, "spent": 0.0214,
    "reserved": 0.0102, "left": 4.9684, "ends_at": "2026-02-01T00:00:00Z",
}  # fmt: skip
PROJECT = {
    "id": "0197c7d0-0b1e-7d3a-8a55-3c1f0a9e7b42", "name": "Default", "created_at": AT,
    "paid_automatic_compression": False, "allowed_models": ["gpt-5-mini", "anthropic:claude-haiku-4-5"],
    "summary_instruction": None,
    "caps": [CAP],
}  # fmt: skip

USE_TOOL = {"name": "read_file", "arguments": {"path": "parser.py"}}
CALL = {"id": "call_1", "name": "read_file", "arguments": {"path": "parser.py"}}
INPUT = {"kind": "model_input", "content": "Make test_parser.py pass."}
OUTPUT = {"kind": "model_output", "thoughts": "Look at the parser first.", "tool_calls": [CALL]}
RESULT = {
    "tool_call_id": "call_1",
    "tool_name": "read_file",
    "status": "success",
    "outputs": "def parse(text): …",
}
RESULTS = {"kind": "tool_results", "results": [RESULT]}
ENTRY = {**INPUT, "position": 1, "created_at": AT, "metadata": {}, "tokens": 8, "live": True}
RANGE = {"session": SESSION, "first_position": 5, "last_position": 6}

_FORMATTED = (
    "Executed `read_file(path='parser.py')`\n"
    '- **Reasoning:** "Look at the parser first."\n'
    "- **Status:** `success`\n"
    "- **Output:** def parse(text): …"
)
EPISODE: dict[str, Any] = {
    "number": 1, "status": "success", "first_position": 2, "last_position": 3, "tokens": 31,
    "started_at": AT, "finished_at": LATER, "thoughts": "Look at the parser first.", "action": USE_TOOL,
    "tool_calls": [CALL], "result": RESULT, "summary": None, "formatted": _FORMATTED,
    "kind": "read", "target": "parser.py", "likely_failure": "", "error_line": "",
    "short": "Executed `read_file(path='parser.py')`: def parse(text): …",
}  # fmt: skip
EPISODE_ITEM: dict[str, Any] = {
    "number": 1, "status": "success", "first_position": 2, "last_position": 3, "tokens": 31,
    "started_at": AT, "finished_at": LATER, "tool_names": ["read_file"],
    "input_preview": "Make test_parser.py pass.", "thought_preview": "Look at the parser first.",
    "call_preview": "read_file(path='parser.py')", "result_preview": "def parse(text): …",
    "kind": "read", "target": "parser.py", "likely_failure": "", "error_line": "", "turn": 1,
}  # fmt: skip
NAME_PLACE: dict[str, Any] = {
    "position": 3, "step": 1, "role": "result", "line": 41, "text": "from app.parser import parse",
}  # fmt: skip
NAME_ORIGIN: dict[str, Any] = {
    "name": "app/parser.py", "kind": "path", "call": 0, "origin": "given", "match": "whole",
    "first": NAME_PLACE, "first_given": None, "last_position": 3, "in_view": True, "acted_on": True,
}  # fmt: skip
ORIGINS: dict[str, Any] = {
    "number": 2, "complete": True, "window": "session", "compacted_at": None, "names": [NAME_ORIGIN],
    "used": [
        {"result": 0, "line": 7, "text": "app/tokens.py", "names": [{"name": "app/tokens.py", "step": 3}]}
    ],
    "result_used": True, "places": None,
}  # fmt: skip
SESSION_ITEM: dict[str, Any] = {
    "id": SESSION, "title": "Fix the parser", "agent": "fixer", "model": "gpt-5-mini", "status": "live",
    "tags": ["parser"], "note": "The first run that kept the last line.", "noted_by": "user:alice",
    "noted_at": LATER, "score": 0.8, "score_name": "correctness", "scored_by": "key:ph_x1Y2z3A",
    "scored_at": LATER, "head": 3, "steps": 1, "errors": 0, "likely_failures": 0, "tokens": 39,
    "cost": 0.0021, "shown_tokens": 61_204, "token_source": "reported", "shown_cost": 0.0021,
    "cost_is_minimum": False, "folder": "/srv/parser", "repository": "github.com/acme/parser",
    "forked_from": None, "fork_position": 0, "spawned_by": None, "spawned_position": None,
    "created_at": AT, "last_entry_at": LATER, "duration": 2.5,
}  # fmt: skip
SESSION_FACETS: dict[str, Any] = {
    "total": 3, "status": [{"value": "live", "count": 2}, {"value": "finished", "count": 1}],
    "agent": [{"value": "fixer", "count": 3}], "model": [{"value": "gpt-5-mini", "count": 3}],
    "repository": [], "folder": [{"value": "/srv/parser", "count": 3}],
    "tag": [{"value": "parser", "count": 2}], "errors": [{"value": "false", "count": 3}],
    "likely_failures": [{"value": "false", "count": 3}],
}  # fmt: skip
BULK_ACTION: dict[str, Any] = {
    "id": "0197c7db-4a10-7c20-9e00-6b1c2d3e4f52", "action": "add_tag", "tag": "to read", "state": "finished",
    "total": 1, "done": 1, "unchanged": 0, "failed": 0, "waiting": 0, "under_way": 0, "cancelled": 0,
    "actor": "key:ph_x1Y2z3A", "created_at": AT, "finished_at": LATER,
    "items": [
        {"session": SESSION, "title": "Fix the parser", "state": "done", "reason": "", "compression": None}
    ],
}  # fmt: skip
BULK_ESTIMATE: dict[str, Any] = {
    "sessions": 2, "nothing_to_do": 1, "steps": 40, "summaries": 40, "calls": 40,
    "models": ["openai:gpt-5-mini"], "tokens_before": 61200, "tokens_in": 69200, "tokens_out": 20000,
    "money": 0.0573, "prices_as_of": "2026-11-20", "refused": [],
}  # fmt: skip
EVALUATION_ITEM: dict[str, Any] = {
    "id": "0197c7db-5b20-7d30-8f10-7c2d3e4f5a63", "state": "finished", "policies": ["budgeted"],
    "budgets": [8000], "model": "", "actor": "key:ph_x1Y2z3A", "created_at": AT, "finished_at": LATER,
    "prices_as_of": "2026-11-20", "total": 1, "done": 1, "skipped": 0, "failed": 0, "waiting": 0,
}  # fmt: skip
EVALUATION: dict[str, Any] = {
    **EVALUATION_ITEM,
    "progress": 1.0,
    "results": {
        "sessions": 1, "steps": 16, "drawn": "steps", "unpriced": 0,
        "choices": [
            {
                "policy": "budgeted", "max_tokens": 8000, "recall": {"mean": 0.94, "low": 0.87, "high": 1.0},
                "grounded": {"mean": 0.81, "low": 0.7, "high": 0.91},
                "behind": {"mean": 0.0, "low": 0.0, "high": 0.0},
                "tokens": 7412.5, "cached": 0.63, "money": 0.000814, "steps": 16, "refused": 0,
            }
        ],
        "recommendation": {"policy": "budgeted", "max_tokens": 8000, "reason": "It is the only choice."},
        "cautions": ["Only one session was measured."],
    },
    "items": [
        {
            "session": SESSION, "title": "Fix the parser", "state": "done", "reason": "",
            "model": "gpt-5-mini", "steps": 16, "measured": 16,
            "figures": [
                {
                    "policy": "budgeted", "max_tokens": 8000, "recall": 0.94, "grounded": 0.81,
                    "tokens": 7412.5, "cached": 0.63, "money": 0.000814, "steps": 16, "refused": 0,
                }
            ],
        }
    ],
}  # fmt: skip
SUMMARY: dict[str, Any] = {
    "id": "0197c7d9-3c21-7d02-8f00-6a1b2c3d4e5f", "from_step": 1, "to_step": 2, "first_position": 2,
    "last_position": 5, "level": 2, "text": "Found that the parser drops the last line.", "key_points": [],
    "strategy": "manual", "model": "", "tokens_before": 310, "tokens_after": 9, "made_at": 6, "money": None,
    "run": None, "created_at": LATER,
}  # fmt: skip
NOTE: dict[str, Any] = {
    "number": 1, "position": 2, "text": "The wrong file: the parser lives in lib/.",
    "actor": "key:ph_x1Y2z3A", "created_at": AT, "updated_at": LATER,
}  # fmt: skip
WHAT_IF: dict[str, Any] = {
    "id": "0197c7db-1f00-7a20-9c00-4b1c2d3e4f50", "name": "small and cheap", "policy": "masked",
    "max_tokens": 4096, "format": None, "model": "gpt-5-nano", "actor": "key:ph_x1Y2z3A",
    "created_at": AT, "updated_at": LATER,
}  # fmt: skip
SHARE: dict[str, Any] = {
    "id": "0197c7db-2e00-7b11-8d10-5c1d2e3f4a51", "as_of": 31, "takes": False, "inputs": False,
    "state": "usable", "actor": "key:ph_x1Y2z3A", "created_at": AT,
    "expires_at": "2026-03-02T09:30:00Z", "revoked_at": None, "last_opened_at": LATER, "opened": 2,
}  # fmt: skip
RUN: dict[str, Any] = {
    "id": "0197c7da-5b2e-7e10-8a00-6a1b2c3d4e5f", "strategy": "simple_extract", "model": "", "options": {},
    "again": False, "trial": False, "comparison": None, "automatic": False, "state": "running", "note": "",
    "head": 31, "from_step": 1, "to_step": 8, "total": 8, "done": 3, "failed": 0, "calls": 0,
    "tokens_in": 0, "tokens_out": 0, "money": 0.0, "prices_as_of": None, "tokens_before": 930,
    "tokens_after": 120, "tokens_saved": 810, "actor": "key:ph_x1Y2z3A", "created_at": AT,
    "started_at": LATER, "finished_at": None,
}  # fmt: skip
REWIND: dict[str, Any] = {
    "position": 7, "to_position": 4, "cut_off": [RANGE], "steps_cut": 1, "head": 7,
}  # fmt: skip
TAKE: dict[str, Any] = {
    "position": 7, "to_position": 4, "reason": "the edit broke other tests", "actor": "key:ph_x1Y2z3A",
    "created_at": LATER, "cut_off": [RANGE],
}  # fmt: skip
IMPORTED_FILE: dict[str, Any] = {
    "name": "0197c7d4.jsonl",
    "format": "claude_code",
    "sessions": [
        {
            "id": SESSION,
            "source_id": SESSION,
            "title": "Fix the parser",
            "new": True,
            "entries": 212,
            "steps": 104,
            "calls": 101,
            "results": 100,
            "unpaired_calls": 1,
            "unpaired_results": 0,
            "added": 212,
        }
    ],
    "skipped": [{"line": 17, "reason": "not valid JSON", "damaged": True}],
    "skipped_count": 1,
    "damaged_count": 1,
    "lines": {"total": 571, "with_entries": 212, "further": 358, "left_out": 1, "blank": 0},
    "error": "",
}
ESTIMATE: dict[str, Any] = {
    "strategy": "simple_extract", "model": "", "note": "", "from_step": 1, "to_step": 8, "steps": 8,
    "summaries": 8, "calls": 0, "tokens_before": 2400, "tokens_in": 0, "tokens_out": 0, "money": 0.0,
    "prices_as_of": "2026-11-29",
}  # fmt: skip
_COMPARISON_ID = "0197c7da-77aa-7f00-9a00-1b2c3d4e5f60"
_TRIAL = {
    "from_step": 1, "to_step": 1, "state": "done", "text": "read_file parser.py: def parse(text): …",
    "error": "", "tokens_before": 310, "tokens_after": 14, "money": 0.0,
}  # fmt: skip
_NEEDED = {"name": "parser.py", "step": 1, "used_at": 9, "kept_by": ["a"]}
_RECALL: dict[str, Any] = {"searched_steps": 8, "later_steps": 4, "names": [_NEEDED], "kept": [1, 0]}
STRATEGY_ROW: dict[str, Any] = {
    "from_step": 1, "to_step": 1, "tokens": 310,
    "steps": [
        {
            "number": 1, "first_position": 2, "last_position": 3, "status": "success",
            "tool_names": ["read_file"], "call_preview": "read_file(path='parser.py')",
            "result_preview": "def parse(text): …", "tokens": 310,
        }
    ],
    "names": 4, "needed": [_NEEDED],
    "sides": [
        {
            "items": [_TRIAL], "tokens_after": 14, "money": 0.0, "names_kept": 1, "kept": ["parser.py"],
            "lost": [],
        }
    ],
}  # fmt: skip
COMPARISON: dict[str, Any] = {
    "id": _COMPARISON_ID, "from_step": 1, "to_step": 8, "ended": True, "recall": _RECALL,
    "sides": [{**RUN, "trial": True, "comparison": _COMPARISON_ID, "items": [_TRIAL]}],
}  # fmt: skip
MESSAGE = {"role": "user", "content": "Make test_parser.py pass."}
_SEGMENTS: list[dict[str, Any]] = [
    {"source": "input", "position": 1, "form": "full", "tokens": 10},
    {"source": "overhead", "form": "full", "tokens": 3},
]
MANIFEST: dict[str, Any] = {
    "policy": "budgeted", "max_tokens": 2048, "tokens": 13, "segments": _SEGMENTS, "left_out": [],
    "reasoning_left_out": [], "notes": [], "full_history": None,
}  # fmt: skip
CONTEXT: dict[str, Any] = {
    "request": {"messages": [MESSAGE]}, "manifest": MANIFEST,
    "tokens": {"estimated": 13, "counted": None, "factor": 1.0, "error": None, "learned_from": 0},
    "snapshot": "0197c7e1-0c2d-7a10-8b11-0a1b2c3d4e5f",
    "sha256": "4a0f3f6f0f2b4c63c1a3f6b3d5b5f0b8a7c1d2e3f405162738495a6b7c8d9e0f",
}  # fmt: skip
SNAPSHOT: dict[str, Any] = {
    "id": CONTEXT["snapshot"], "position": 1, "created_at": LATER, "policy": "budgeted",
    "format": "openai_chat", "model": "gpt-5-mini", "max_tokens": 2048, "live_screen": False,
    "sha256": CONTEXT["sha256"], "tokens": {"estimated": 13, "counted": None, "billed": 13, "factor": 1.0},
    "output_position": 2,
}  # fmt: skip
USAGE = {"input": 61, "uncached": 61, "cache_read": 0, "cache_write": 0, "output": 40, "reasoning": 0}
MODEL_LEDGER: dict[str, Any] = {
    **USAGE, "model": "gpt-5-mini", "calls": 1, "estimated": 60, "counted": 0, "money": 0.000095,
    "reported": 0.0,
}  # fmt: skip
STEP_LEDGER: dict[str, Any] = {
    **USAGE, "number": 1, "first_position": 2, "status": "success", "model": "gpt-5-mini", "tokens": 31,
    "estimated": 60, "counted": 0, "money": 0.000095,
}  # fmt: skip
RECORDED_REQUEST: dict[str, Any] = {
    "step": 2, "position": 4, "source": "transcript", "model": "claude-haiku-4-5", "snapshot": None,
    "sha256": None,
    "window": {
        "begins": "session", "position": None, "first_step": 1, "forgotten": 0, "max_tokens": 200_000,
        "at_least": 12_451,
    },
    "tokens": {
        "billed": {
            "input": 12_451, "uncached": 3, "cache_read": 12_400, "cache_write": 48, "output": 20,
        },
        "expected": 12_449, "difference": 2, "cost": 0.0014,
        "parts": [
            {"part": "unseen", "tokens": 12_400}, {"part": "person", "tokens": 10},
            {"part": "results", "tokens": 12}, {"part": "assistant", "tokens": 27},
        ],
    },
    "changes": {
        "place": "end", "first_byte": None, "part": None, "new_positions": [2, 3], "shared_tokens": 12_410,
        "reusable_tokens": 12_288, "missed_tokens": 0, "saved": 0.0086, "cached_cost": 0.0014,
    },
    "notes": ["About 12,400 tokens of the request are not recorded: tools and system prompt."],
    "total": 3,
    "messages": [{"role": "user", "position": 1, "tokens": 8, "content": INPUT}],
    "next": "WyJyZXF1ZXN0IiwxXQ",
}  # fmt: skip
OVERVIEW: dict[str, Any] = {
    "steps": 1, "counted_steps": 1,
    "ending": {"kind": "unanswered", "text": "ended with a result that the agent did not answer",
        "steps": [1]},
    "time": {"started_at": AT, "ended_at": LATER, "total": 2.5, "model": 2.1, "tools": 0.4, "waiting": 0.0,
             "unanswered": 0.0, "rewound": 0.0, "outside": 0.0},
    "tokens": {**USAGE, "shown": 61, "source": "reported"},
    "money": {"amount": 0.0021, "source": "reported", "prices_as_of": "2026-11-29", "unknown_models": []},
    "worth_a_look": [
        {
            "kind": "unanswered", "text": "Ended with a result that the agent did not answer",
            "seconds": None,
            "steps": [1],
        }
    ],
    "names": {"indexed": True, "unseen": 1, "unseen_steps": [1], "gone": 0, "gone_steps": []},
    "context": {
        "source": "reported", "model": "gpt-5-mini", "window": 272000,
        "window_at_least": 61, "steps_per_point": 1,
        "points": [[1, 61]], "compactions": [], "rewinds": [], "turns": [1],
    },
    "tools": [
        {
            "name": "read_file", "kind": "read", "calls": 1, "errors": 0, "likely_failures": 0,
            "seconds": 0.4, "tokens": 12, "steps": [1], "error_steps": [], "likely_steps": [],
        }
    ],
    "files": [
        {
            "path": "parser.py", "reads": 1, "edits": 0, "added": 0, "removed": 0, "steps": [1],
            "edit_steps": [], "read_again": [],
        }
    ],
    "further_changes": [14],
    "commands": [
        {
            "command": "pytest", "runs": 1, "errors": 0, "likely_failures": 0, "seconds": 1.2, "steps": [4],
        }
    ],
    "missing_subagents": 0,
    "subagents": [],
    "slowest": [{"step": 1, "tool": "read_file", "target": "parser.py", "seconds": 0.4}],
    "dearest": [{**USAGE, "step": 1, "tool": "read_file", "target": "parser.py", "money": 0.000095}],
    "repeated": [],
}  # fmt: skip
EVENT = {
    "cursor": "0-18", "kind": "entries", "session": SESSION, "first_position": 4, "position": 5, "run": None,
    "at": "2026-11-24T08:15:04Z",
}  # fmt: skip
_PAIR_STEP: dict[str, Any] = {
    "number": 2, "first_position": 4, "last_position": 5, "status": "error", "tool_names": ["shell"],
    "call_preview": "shell(command='pytest')", "result_preview": "1 failed", "tokens": 40, "money": 0.0004,
    "seconds": 1.2,
}  # fmt: skip
STEP_PAIR: dict[str, Any] = {
    "a": _PAIR_STEP, "b": {**_PAIR_STEP, "status": "success", "result_preview": "12 passed"},
    "change": "different", "differs": ["result", "status"],
    "delta": {"tokens": 12, "money": 0.0004, "seconds": -0.3}, "exact": True,
}  # fmt: skip
_RUN_PART: dict[str, Any] = {
    "steps": 2, "errors": 1, "likely_failures": 0, "tokens": 102, "token_source": "estimated",
    "money": 0.0021, "seconds": 2.5,
}  # fmt: skip
_COMPARED_RUN: dict[str, Any] = {
    "reference": SESSION, "session": SESSION, "as_of": None, "title": "Fix the parser", "agent": "fixer",
    "model": "gpt-5-mini", "head": 5, "totals": _RUN_PART, "apart": {**_RUN_PART, "steps": 1},
}  # fmt: skip
RUN_COMPARISON: dict[str, Any] = {
    "a": _COMPARED_RUN, "b": {**_COMPARED_RUN, "reference": f"{SESSION}/takes/7", "as_of": 6},
    "common": {"position": 3, "steps": 1},
    "counts": {
        "same": 0, "different_call": 0, "different_result": 1, "only_a": 0, "only_b": 0, "complete": True,
    },
    "first_difference": {"a": 2, "b": 2}, "first_divergence": None,
    "pairs": {"items": [STEP_PAIR], "next": None},
}  # fmt: skip
_FIGURES: dict[str, Any] = {
    "sessions": 1, "steps": 3, "errors": 1, "likely_failures": 0, "recorded_tokens": 190, "model_calls": 3,
    "uncached": 24, "cache_read": 96, "cache_write": 0, "output": 12, "seconds": 0.4, "money": 0.000095,
    "money_is_minimum": False, "unpriced_models": [], "unpriced_tokens": 0,
}  # fmt: skip
_NO_FIGURES: dict[str, Any] = {
    name: value if isinstance(value, (bool, list)) else 0 for name, value in _FIGURES.items()
}
FIGURES = {
    "first": "2026-11-18", "last": "2026-11-24", "by": "day", "total": _FIGURES, "before": _NO_FIGURES,
    "undated": _NO_FIGURES, "items": [{**_FIGURES, "name": "2026-11-24"}],
    "item_count": 1, "is_current": True,
}  # fmt: skip
WEBHOOK: dict[str, Any] = {
    "id": "0197c7f4-1c00-7a11-8b30-5d1e2f3a4b51", "url": "https://hooks.example.com/playhead",
    "description": "Tell the team of failures", "events": ["session.error", "session.loop"],
    "state": "active", "note": "", "waiting": 0, "failures": 0, "failing_since": None,
    "last_success_at": LATER, "created_at": AT, "secret_generation": 1, "old_secret_until": None,
}  # fmt: skip
WEBHOOK_ATTEMPT: dict[str, Any] = {
    "at": LATER, "status": 204, "milliseconds": 12, "error": "", "answer": "",
}  # fmt: skip
DELIVERY: dict[str, Any] = {
    "id": "msg_0197c7f41d007a118b305d1e2f3a4b52", "event": "webhook.test", "session": None,
    "state": "succeeded", "attempts": 1, "next_attempt_at": None, "created_at": AT, "finished_at": LATER,
    "last_attempt": WEBHOOK_ATTEMPT,
}  # fmt: skip
DELIVERY_BODY: dict[str, Any] = {
    "body": '{"type":"webhook.test","timestamp":"2026-01-31T09:30:00.000Z","data":{…}}',
    "log": [WEBHOOK_ATTEMPT],
}  # fmt: skip
