"""Lists of tasks as check lists, plans as text."""

from collections.abc import Mapping
from typing import Any

from dashboard.rendering.blocks import MARKDOWN, TASKS, TERMINAL, Block
from dashboard.tools.base import CallBlocks, Card, RecordedCall, ToolView, answer_blocks, further_values
from historyapp.core.text import preview

_LISTS = ("todos", "plan", "task_list", "tasks", "items")
_TEXTS = ("plan", "thought", "subject", "explanation")
_MARKS = {
    "completed": "[x] ",
    "done": "[x] ",
    "in_progress": "[>] ",
    "cancelled": "[-] ",
    "deleted": "[-] ",
}
_SHORT = 400


def fits(tool_call: RecordedCall) -> bool:
    return bool(_tasks(tool_call)) or (tool_call.subject.kind == "plan" and bool(tool_call.text_of(*_TEXTS)))


def draw(tool_call: RecordedCall, make: CallBlocks) -> Card:
    tasks = _tasks(tool_call)
    shown = tuple(name for name in _LISTS if isinstance(tool_call.fields.get(name), list))
    # A plan begins with its own heading.
    card = Card(title=preview(tool_call.subject.target) if tasks else "")
    card.request = [make.request("tasks", "\n".join(tasks), TASKS)] if tasks else []
    for name in _TEXTS:
        if text := tool_call.text_of(name):
            card.request.append(make.request(name, text, MARKDOWN))
            shown = (*shown, name)
    card.values = further_values(tool_call, make, *shown)
    card.response = answer_blocks(tool_call, make, lambda text, key: _answer(tool_call, make, text, key))
    return card


def _tasks(tool_call: RecordedCall) -> list[str]:
    """Each task in one line with a mark; empty if the call has no list of tasks."""
    for value in (tool_call.fields.get(name) for name in _LISTS):
        if isinstance(value, list) and value and all(isinstance(task, Mapping) for task in value):
            lines = [_line(task) for task in value]
            return [line for line in lines if line] if all(lines) else []
    return []


def _line(task: Mapping[str, Any]) -> str:
    """The text of a task, and its remarks; empty if it has no status or text."""
    texts = (task.get(name) for name in ("content", "step", "title", "subject", "task"))
    text = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    status, notes = task.get("status"), task.get("notes")
    if not text or not isinstance(status, str):
        return ""
    remark = f" – {notes}" if isinstance(notes, str) and notes else ""
    return _MARKS.get(status, "[ ] ") + " ".join(f"{text}{remark}".split())


def _answer(tool_call: RecordedCall, make: CallBlocks, text: str, key: str) -> list[Block]:
    is_long = len(text) > _SHORT and not tool_call.looks_failed
    return [make.response(key, text, TERMINAL, "Tool result" if is_long else "", is_aside=is_long)]


PLAN = ToolView(name="plan", fits=fits, draw=draw)
