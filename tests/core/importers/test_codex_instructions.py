"""What instructs the model in files of 2025: the first line, unless a message has the same text."""

from typing import Any

import pytest

from historyapp.core.entries import ModelInput, SystemInstruction
from historyapp.core.importers.base import Append
from tests.core.importers.codex_lines import asks, meta, read, says
from tests.core.importers.operations import bodies

FIRST = meta(instructions="Use uv.\n")
ENVIRONMENT = "<environment_context>/src</environment_context>"


def words_of(*lines: dict[str, Any]) -> list[str]:
    words = []
    for body in bodies(read(*lines)):
        if isinstance(body, SystemInstruction):
            words.append(f"system: {body.text}")
        elif isinstance(body, ModelInput):
            words.append(f"{body.channel}: {body.content}")
        else:
            words.append(body.kind)
    return words


def test_instructions_that_no_message_repeats_are_read_before_the_prompt() -> None:
    lines = (FIRST, asks(ENVIRONMENT), asks("go"), says("ok"))
    assert words_of(*lines) == [f"meta: {ENVIRONMENT}", "system: Use uv.\n", "user: go", "model_output"]


@pytest.mark.parametrize("role", ["user", "developer"])
def test_instructions_that_a_message_repeats_are_read_once(role: str) -> None:
    message = "<user_instructions>\n\nUse uv.\n\n</user_instructions>"
    assert "\n".join(words_of(FIRST, says(message, role), asks("go"), says("ok"))).count("Use uv.") == 1


def test_instructions_are_read_before_an_output_without_a_prompt() -> None:
    assert words_of(FIRST, says("ok")) == ["system: Use uv.\n", "model_output"]


def test_instructions_stay_when_developer_messages_add_to_them() -> None:
    lines = (FIRST, asks("go"), says("Now code.", "developer"))
    assert words_of(*lines)[-1] == "system: Use uv.\n\n\nNow code."


def test_a_developer_message_after_an_output_stays_at_its_place() -> None:
    """Codex appends it to the request. The instruction stays as it was, and the provider's cache with it."""
    lines = (says("Plan.", "developer"), asks("go"), says("ok"), says("Code.", "developer"))
    assert words_of(*lines) == ["system: Plan.", "user: go", "model_output", "developer: Code."]


def test_instructions_follow_the_base_instructions() -> None:
    base = {"base_instructions": {"text": "You are Codex."}}
    assert words_of(meta(**base, instructions="Use uv."), asks("go"))[1:] == [
        "system: You are Codex.\n\nUse uv.",
        "user: go",
    ]


@pytest.mark.parametrize("nothing", [None, "", " ", {"a": 1}, 3])
def test_a_first_line_without_instructions_gives_no_instruction(nothing: Any) -> None:
    assert words_of(meta(instructions=nothing), asks("go")) == ["user: go"]


def test_instructions_of_a_copied_first_line_are_not_read_again() -> None:
    assert "\n".join(words_of(FIRST, asks("go"), says("ok"), FIRST, asks("on"))).count("Use uv.") == 1


def test_an_entry_read_because_the_file_ended_is_provisional() -> None:
    (entry,) = [operation for operation in read(FIRST) if isinstance(operation, Append)]
    assert entry.provisional
