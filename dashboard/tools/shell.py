"""Commands in a shell: the command, its folder, its output as a terminal shows it, and its exit code."""

import shlex
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from dashboard.rendering.blocks import SCREEN, Block
from dashboard.rendering.patches import begins_with_patch, parse_patch
from dashboard.tools.base import CallBlocks, Card, RecordedCall, ToolView, answer_blocks, further_values
from dashboard.tools.edit import patch_blocks
from historyapp.core.call_subjects import COMMANDS, FOLDERS, SCRIPTS
from historyapp.core.dates import duration_text
from historyapp.core.exit_codes import FIELDS
from historyapp.core.failures import check_of, found_nothing
from historyapp.core.results import returned_text
from historyapp.core.shell_output import STREAMS, output_of, shell_output
from historyapp.core.text import preview

_REMARKS = ("description", "summary", "justification")
_SHELLS = ("bash", "sh", "zsh", "powershell", "pwsh")


def command_of(tool_call: RecordedCall) -> str:
    """The command line or the script; empty if there is none."""
    if isinstance(tool_call.arguments, str):
        return tool_call.arguments
    for value in (tool_call.fields.get(name) for name in COMMANDS):
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            is_script = len(value) == 3 and value[0].endswith(_SHELLS) and value[1].startswith("-")
            return str(value[2]) if is_script else shlex.join(value)
    return ""


def fits(tool_call: RecordedCall) -> bool:
    return tool_call.subject.kind == "shell" and bool(command_of(tool_call))


def draw(tool_call: RecordedCall, make: CallBlocks) -> Card:
    command = command_of(tool_call)
    folder = tool_call.text_of(*FOLDERS)
    facts = [preview(fact) for fact in (tool_call.text_of(*_REMARKS), folder) if fact]
    card = Card(facts=facts)
    is_script = isinstance(tool_call.arguments, str) and command.startswith(SCRIPTS)
    card.request = [make.request("command", command.strip("\n"), "javascript" if is_script else "bash")]
    card.values = further_values(tool_call, make, *COMMANDS, *FOLDERS, *_REMARKS)
    codes: list[int | None] = []

    def draw_text(text: str, key: str) -> list[Block]:
        output = shell_output(text)
        codes.append(output.exit_code)
        if output.seconds is not None:
            card.facts.append(duration_text(timedelta(seconds=output.seconds)))
        patch = parse_patch(output.text) if begins_with_patch(output.text) else None
        if patch:
            return patch_blocks(patch, make.response, key)
        return [make.response(key, output.text.strip("\n"), SCREEN)] if output.text.strip() else []

    outputs = tool_call.outputs
    value = output_of(outputs) if isinstance(outputs, Mapping) else None
    if value is None:
        card.response = answer_blocks(tool_call, make, draw_text)
    else:
        codes.append(value.exit_code)
        card.response = _streams(outputs, make)
    code = next((code for code in codes if code is not None), None)
    if code is not None:
        card.badge, card.is_bad = f"exit {code}", code != 0
    result = tool_call.result
    if result and result.status == "error":
        check = check_of(tool_call.name, tool_call.arguments, "shell")
        if found_nothing(result, check, returned_text(result)):
            card.badge = f"{card.badge}, not a failure".removeprefix(", ")
            card.is_bad, card.found_nothing = False, True
    return card


def _streams(outputs: Mapping[str, Any], make: CallBlocks) -> list[Block]:
    blocks = [
        make.response(name, value, SCREEN, "stderr" if name == "stderr" else "")
        for name in STREAMS
        if isinstance(value := outputs.get(name), str) and value
    ]
    shown_names = (*STREAMS, *FIELDS, "metadata", "type")
    others = {
        name: value
        for name, value in outputs.items()
        if name not in shown_names and value not in ("", [], None)
    }
    return [*blocks, make.tree("rest", others)] if others else blocks


SHELL = ToolView(name="shell", fits=fits, draw=draw)
