"""A recorded request as people see it: its size, a bar with a table, and an explanation of each figure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.rendering.bars import BarPart, draw_bar
from dashboard.rendering.context import readable
from historyapp.core.content import plain_text
from historyapp.core.json import dump_json
from historyapp.core.request_tokens import Part
from historyapp.core.shell_output import shell_output
from historyapp.core.text import preview
from historyapp.core.usage import Usage, dollar_text
from historyapp.models.takes import Take, takes
from historyapp.services.recorded.changes import RequestChanges
from historyapp.services.recorded.notes import (
    cache_note,
    change_note,
    cost_note,
    source_note,
    unseen_note,
    window_note,
)
from historyapp.services.recorded.requests import RecordedRequest, RequestMessage

LABELS: dict[Part, str] = {
    "unseen": "system, tools (unseen)",
    "instruction": "instruction",
    "tools": "tools",
    "notebook": "notebook",
    "summary": "summary",
    "person": "user input",
    "harness": "added by the agent",
    "results": "tool results",
    "assistant": "assistant",
    "steps": "steps",
    "screen": "live screen",
    "overhead": "overhead",
    "removed": "removed, unrecorded",
}
"""The parts of a request, in the order of the bar."""
UNSEEN_TOOLS = "tools (unseen)"
"""The unseen part if the instruction is recorded."""
MAX_TAKES = 5
ROUNDED_FROM = 10_000
"""An estimated size is rounded to hundreds from here on."""
SHOWN = 2_000
"""Characters of a message in the list; the step has the whole text."""


@dataclass(frozen=True, slots=True)
class RecordedPanel:
    """The content of the panel of a request."""

    request: RecordedRequest
    changes: RequestChanges | None
    size: str
    """The large figure: the tokens as billed, else about as counted; "unknown" if nothing is recorded."""
    size_note: str
    """Explains the large figure: its source, and the model's window."""
    parts: list[BarPart]
    read: str
    """The share of the input that was read from a cache, as a percentage; empty if unknown."""
    read_class: str
    """``is-missed`` if the cache should have been read and was not, ``is-good`` if at least half of the input
    was read from it, otherwise empty."""
    cache_facts: str
    cache_note: str
    cost_note: str
    change_note: str
    absent: list[str]
    """The parts that are not in the request, in sentences."""
    takes: list[Take]
    """Takes that were cut off before the step, the newest last."""
    source_note: str


def draw_recorded(request: RecordedRequest, changes: RequestChanges | None) -> RecordedPanel:
    """The panel of a recorded request; reads the takes."""
    since = request.first_step - 1
    recent_takes = [take for take in takes(request.history) if take.steps and take.after_step >= since]
    reported = request.reported
    absent = [unseen_note(request.tokens), window_note(request)]
    change_text = change_note(request, changes)
    if change_text.startswith("New since"):  # the heading already has this beginning
        details = change_text.partition(": ")[2]
        change_text = f"{details[:1].upper()}{details[1:]}" if details else change_text
    return RecordedPanel(
        request=request,
        changes=changes,
        size=_size(request),
        size_note=_size_note(request),
        parts=_bar(request),
        read=f"{100 * reported.cache_read // reported.input} %" if reported else "",
        read_class=_read_class(reported, changes),
        cache_facts=_cache_facts(request),
        cache_note=cache_note(request, changes),
        cost_note=cost_note(request, changes),
        change_note=change_text,
        absent=[note for note in absent if note],
        takes=recent_takes[-MAX_TAKES:],
        source_note=source_note(request),
    )


def _size(request: RecordedRequest) -> str:
    if not request.total:
        return "unknown"
    if request.reported or request.snapshot or request.total < ROUNDED_FROM:
        return f"{request.total:,}"
    return f"about {round(request.total, -2):,}"


def _size_note(request: RecordedRequest) -> str:
    source = "tokens, as billed" if request.reported else "tokens, by Playhead's count"
    if not request.reported and not request.is_estimated:
        source = "recorded tokens, by Playhead's count; the whole request is unknown"
    if not request.total:
        source = "size"
    origin = "recorded" if request.model_window == request.recorded_window else "usual for this model"
    window = f"{request.model_window:,} ({origin})" if request.model_window else "unknown"
    if request.largest and not request.model_window:
        window += f" (at least {request.largest:,})"
    return f"{source} · context window {window}"


def _bar(request: RecordedRequest) -> list[BarPart]:
    """The parts of the bar. Its width represents the model's window, or the request if the window is
    unknown."""
    tokens, total = request.tokens.parts, max(1, request.total)
    unseen_label = UNSEEN_TOOLS if tokens.get("instruction") else LABELS["unseen"]
    if request.tokens.is_remainder:
        unseen_label = unseen_label.replace("tools", "tools, other text")
    labels = LABELS | {"unseen": unseen_label}
    whole = sum(count for count in tokens.values() if count > 0)
    scale = min(1.0, request.total / whole) if whole else 1.0  # our count may exceed the bill
    sizes = [(str(part), label, tokens.get(part, 0)) for part, label in labels.items()]
    difference = request.tokens.difference if request.reported else request.tokens.last_difference
    difference = difference or 0
    if (unseen := tokens.get("unseen", 0)) < 0:  # the bill is below our count: nothing is known to be unseen
        sizes = [size for size in sizes if size[0] != "unseen"]
        difference += unseen
    label = "difference from the bill" if request.reported else "difference from the last bill"
    sizes.append(("difference", label, difference))
    return draw_bar(sizes, request.model_window or total, total=total, scale=scale)


def _read_class(usage: Usage | None, changes: RequestChanges | None) -> str:
    if changes is not None and changes.is_missed:
        return "is-missed"
    return "is-good" if usage and 0 < usage.input <= 2 * usage.cache_read else ""


def _cache_facts(request: RecordedRequest) -> str:
    usage = request.reported
    if usage is None:
        return "Unknown: the usage of this model call is not recorded."
    written = f"{usage.cache_write:,} written"
    if usage.cache_write_hour:
        is_all = usage.cache_write_hour == usage.cache_write
        written += " for an hour" if is_all else f", {usage.cache_write_hour:,} of them for an hour"
    facts = [f"{usage.cache_read:,} read", written, f"{usage.uncached:,} new"]
    facts.append("price unknown" if request.billed is None else dollar_text(request.billed))
    return " · ".join(facts)


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message in a list."""

    message: RequestMessage
    preview: str
    text: str
    """The beginning of its text."""
    has_more: bool


def message_rows(messages: Sequence[RequestMessage]) -> list[MessageRow]:
    """Messages as rows of a list."""
    rows = []
    for message in messages:
        text = message_text(message.content)
        shown = shell_output(text[:SHOWN]).text if message.role == "tool" else text
        rows.append(MessageRow(message, preview(shown or text, 90), text[:SHOWN], len(text) > SHOWN))
    return rows


def message_text(content: Mapping[str, Any]) -> str:
    """The text of a message, in the shape of an entry or of a provider. Content without a text is shown as
    JSON."""
    match content:
        case {"kind": "model_output"}:
            actions = [*content.get("tool_calls", []), content.get("use_tool")]
            calls = [
                f"{action['name']} {dump_json(action.get('arguments', {}))}" for action in actions if action
            ]
            return "\n\n".join(filter(None, [content.get("text", ""), *calls]))
        case {"kind": "tool_results"}:
            return "\n\n".join(map(_result_text, content.get("results", [])))
        case {"kind": _, "text": str(text)} | {"kind": _, "content": str(text)}:
            return text
        case {"kind": _, "content": list(parts)}:
            return plain_text(parts) or dump_json(parts)
        case {"system": fixed} | {"instructions": fixed}:
            return readable(fixed) or dump_json(fixed)
        case {"role": _} | {"arguments": _} | {"input": _} | {"output": _} | {"content": _}:
            return readable(content) or dump_json(content)
    return dump_json(content)


def _result_text(result: Mapping[str, Any]) -> str:
    for name in ("outputs", "reason", "feedback", "error"):
        if value := result.get(name):
            return value if isinstance(value, str) else plain_text(value) or dump_json(value)
    return ""
