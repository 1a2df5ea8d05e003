"""Reads the output of a shell, in the forms in which harnesses report it."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from historyapp.core.exit_codes import FIELDS, exit_code_in
from historyapp.core.json import parse_lenient
from historyapp.core.text import MAX_READ

STREAMS = ("output", "stdout", "stderr", "interrupted")
_HEADS = (
    "Chunk ID:", "Wall time", "Process ", "Exit code", "Original token count:", "Total output lines:",
    "Script completed", "Script running", "Command:", "Directory:",
)  # fmt: skip
"""The beginnings of lines that Codex, Claude Code and Gemini CLI write before the output."""
_WALL = re.compile(r"^Wall time:? {1,3}(\d{1,9}(?:\.\d{1,9})?) seconds", re.MULTILINE)
_CODE = "<returncode>"
"""The beginning of a result of mini-swe-agent."""
_AFTER = "\nError: (none)\nExit Code: 0\n"
"""What Gemini CLI writes after the output of a command that succeeded, before further facts."""
_OUTPUT, _EMPTY = "Output:", "(empty)"
_MAX_HEADS = 8
_MAX_HEAD = 10_000
"""Characters of the harness's lines in which the exit code and the duration are looked for."""
_MAX_SECONDS = 1e9
"""Seconds. A larger number is not the duration of a command."""


class ShellOutput(NamedTuple):
    """What a shell returned, without what the harness wrote around it."""

    text: str
    exit_code: int | None = None
    seconds: float | None = None
    """How long the command took, as the harness says."""


def shell_output(text: str) -> ShellOutput:
    """Reads the forms in which harnesses report a command; any other text is output."""
    if text.startswith(_CODE):
        head, _, output = text.partition("</returncode>")
        inside = output.strip().removeprefix("<output>").removesuffix("</output>")
        return ShellOutput(inside.strip("\n"), _exit_code(head))
    if text.startswith('{"') and len(text) <= MAX_READ and (value := _reported(text)):
        return value
    head, output = _head_and_output(text)
    if head:
        wall = _WALL.search(head, 0, _MAX_HEAD)
        return ShellOutput(output, _exit_code(head), float(wall[1]) if wall else None)
    last = text[text.rstrip().rfind("\n") + 1 :]
    return ShellOutput(text, _exit_code(last) if last.startswith("[") else None)


def reported_seconds(text: str) -> float | None:
    """How long the tool took, as the lines of the harness before the output say; does not read JSON."""
    head, _ = _head_and_output(text)
    wall = _WALL.search(head, 0, _MAX_HEAD)
    return float(wall[1]) if wall else None


def printed(text: str) -> str:
    """What the program printed, without what a harness wrote around it; does not read JSON."""
    if text.startswith(_CODE):
        return shell_output(text).text
    output = _head_and_output(text)[1]
    return "" if output.startswith(_EMPTY) else output.partition(_AFTER)[0]


def _exit_code(text: str) -> int | None:
    codes = map(exit_code_in, text[:_MAX_HEAD].splitlines()[:_MAX_HEADS])
    return next((code for code in codes if code is not None), None)


def _head_and_output(text: str) -> tuple[str, str]:
    """The harness's lines about the command, and the output after them."""
    position = 0
    for _ in range(_MAX_HEADS):
        if text.startswith(_OUTPUT, position):
            begin = position + len(_OUTPUT)
            return text[:position], text[begin + text.startswith((" ", "\n"), begin) :]
        if not text.startswith(_HEADS, position):
            break
        newline = text.find("\n", position)
        position = newline + 1 if newline >= 0 else len(text)
    is_short = text.startswith("Exit code ")  # Claude Code writes only this before a failure's output
    return (text[:position], text[position:]) if is_short else ("", text)


def _reported(text: str) -> ShellOutput | None:
    try:
        value = parse_lenient(text)
    except ValueError:
        return None
    return output_of(value) if isinstance(value, Mapping) else None


def output_of(value: Mapping[str, Any]) -> ShellOutput | None:
    """An object with the output and the exit code; None if it has other fields that would be lost."""
    metadata = value.get("metadata")
    facts: Mapping[str, Any] = metadata if isinstance(metadata, Mapping) else value
    texts = [value[name] for name in STREAMS if isinstance(value.get(name), str) and value[name]]
    code = next((facts[name] for name in FIELDS if isinstance(facts.get(name), int)), None)
    if code is None or not any(name in value for name in STREAMS):
        return None
    seconds = facts.get("duration_seconds")
    is_time = isinstance(seconds, (int, float)) and 0 <= seconds < _MAX_SECONDS
    return ShellOutput("\n".join(texts), code, seconds if is_time else None)
