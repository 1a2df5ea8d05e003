"""Makes the preview of a result: the beginning of the tool's output, without the harness's additions."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from historyapp.core.beginnings import json_beginning
from historyapp.core.content import are_parts, plain_text
from historyapp.core.entries import ToolResult
from historyapp.core.failures import Check, LikelyFailure
from historyapp.core.result_facts import result_fact
from historyapp.core.results import NO_OUTPUT, result_text
from historyapp.core.shell_output import STREAMS, printed, shell_output
from historyapp.core.text import preview, without_colours

_TEXTS = ("text", "title", "tool_name", "name")
"""The fields that can represent a part, the best first."""
_CONTENTS = ("text", "content", "result", "message")
"""The fields that can hold the content of an object."""
_ENOUGH = 1_000
"""Characters; a preview has 200."""
_READ = 100_000
"""Characters of a value's JSON. They are more than a preview has, because it may count lines or matches."""
_REPORT = '{"output"'
"""How Codex once reported a command: an object in JSON."""
_CUT = ("Warning: truncated output", "Total output lines:")
"""How Codex begins an output that it shortened; a blank line follows."""


class PreviewedText(NamedTuple):
    """The text of a result's outputs that its preview is made of, or the beginning of this text."""

    text: str
    has_outputs: bool
    """Whether there are outputs; their text without what a harness added may be empty."""


class ResultTexts(NamedTuple):
    """What takes long to find in a result. None: it has not been looked for."""

    returned: str | None = None
    previewed: PreviewedText | None = None
    error_line: str | None = None
    """Of a reported error."""
    checked: tuple[Check, LikelyFailure | None] | None = None
    """Facts about the call, and the likely failure that was found with them, if any."""


def result_preview(result: ToolResult, check: Check | None = None, read: PreviewedText | None = None) -> str:
    """Up to 200 characters on one line.

    Args:
        check: facts about the call. With them, some kinds of tools have a better line than the beginning.
        read: the result of :func:`previewed_text`, if it has been made already.

    >>> parts = [{"type": "text", "text": "Exit code: 0\\nOutput:\\n3 files changed"}]
    >>> result_preview(ToolResult(status="success", outputs=parts))
    '3 files changed'
    """
    if result.status != "success":
        return preview(result_text(result))
    text, has_outputs = read or previewed_text(result)
    fact = result_fact(check, text) if check and text else ""
    return preview(fact or without_colours(text[:_ENOUGH])) or (NO_OUTPUT if has_outputs else "")


def previewed_text(result: ToolResult) -> PreviewedText:
    """What a preview shows of the outputs."""
    outputs = _outputs_text(result.outputs)
    text = shell_output(outputs).text if outputs.startswith(_REPORT) else printed(outputs)
    text = (text.partition("\n\n")[2] or text) if text.startswith(_CUT) else text
    return PreviewedText(text, bool(outputs))


def _outputs_text(outputs: Any) -> str:
    """The text of the outputs, or its beginning."""
    match outputs:
        case str():
            return outputs
        case None:
            return NO_OUTPUT
        case list() if any(isinstance(part, Mapping) for part in outputs):
            return _joined(outputs)
        case Mapping():
            return _main_text(outputs) or json_beginning(outputs, _READ)
    return plain_text(outputs) if are_parts(outputs) else json_beginning(outputs, _READ)


def _joined(parts: Iterable[Any]) -> str:
    """The texts of parts, joined until there are enough characters."""
    texts, size = list[str](), 0
    for part in parts:
        texts.append(_part_text(part))
        size += len(texts[-1])
        if size > _ENOUGH:
            break
    return "\n".join(filter(None, (text.strip("\n") for text in texts)))


def _part_text(part: Any) -> str:
    if isinstance(part, Mapping):
        named = (part[name] for name in _TEXTS if isinstance(part.get(name), str) and part[name])
        return next(named, "") or plain_text([part])
    return plain_text(part)


def _main_text(fields: Mapping[str, Any]) -> str:
    """The text of an object that has one: what a program printed, or the field that holds its content."""
    streams = [fields[name] for name in STREAMS if isinstance(fields.get(name), str) and fields[name]]
    if streams:
        return "\n".join(streams)
    for name in _CONTENTS:
        content = fields.get(name)
        if isinstance(content, str) and content:
            return content
        if isinstance(content, list) and content and isinstance(content[0], Mapping):
            return _joined(content)
    return ""
