"""What a harness, the program that runs an agent, puts into messages: reminders, environment, hooks."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from historyapp.core.person_inputs import delegation_in

HARNESS_CHANNELS = ("meta", "environment")
"""Channels of inputs that no person wrote."""
_TAGS = (
    "system-reminder|environment_context|environment_details|user_instructions|INSTRUCTIONS|local-command-caveat"
    "|local-command-stdout|local-command-stderr|bash-stdout|bash-stderr|task-notification|turn_aborted"
    "|user-prompt-submit-hook|session-start-hook|pre-tool-use-hook|post-tool-use-hook|ide_selection"
    "|ide_opened_file|ide_diagnostics|new-diagnostics|subagent_notification|collaboration_mode"
    "|permissions instructions|command-message"
)
_OPENING = re.compile(rf"<(?P<tag>{_TAGS})>")
_WORDS = re.compile(r"(?:</?(?:command-name|command-args|bash-input)>\s{0,99})+")
"""Marks around what the person typed."""
MAX_SEARCHED = 200_000
"""Characters of a message in which additions and marks are searched. The rest is shown as it is: the search
stops all other threads, for a second in a text of 31 MB.
"""
MAX_PARTS = 20
"""The maximum number of parts that one message is divided into."""
MAX_CLOSING = 1_000_000
"""The characters of a message in which the end of an addition is searched."""


class MessagePart(NamedTuple):
    """A part of a message: the words of the sender, or an addition of the harness with its name."""

    text: str
    tag: str = ""
    """Empty: the words of the sender."""


def message_parts(text: str) -> list[MessagePart]:
    """A message, split into the sender's text and the additions, in order. Only marks are left out."""
    delegation = delegation_in(text)
    parts = _parts(delegation.task if delegation else text)
    passed_on = [MessagePart(delegation.thread, "codex_delegation")] if delegation else []
    return [part for part in (*passed_on, *parts) if part.text.strip()]


def _parts(text: str) -> Iterator[MessagePart]:
    position, count, unclosed = 0, 0, set[str]()
    for opening in _OPENING.finditer(text, 0, MAX_SEARCHED):
        tag = opening["tag"]
        if opening.start() < position or tag in unclosed or count >= MAX_PARTS:
            continue
        end = text.find(f"</{tag}>", opening.end(), MAX_CLOSING)
        if end < 0:
            unclosed.add(tag)  # a later tag of this name is not closed either
            continue
        yield MessagePart(user_text(text[position : opening.start()]).strip("\n"))
        yield MessagePart(text[opening.end() : end].strip("\n"), tag)
        position, count = end + len(tag) + 3, count + 1
    user_part = user_text(text[position:])
    yield MessagePart(user_part.strip("\n") if position else user_part)


def user_text(text: str) -> str:
    """What a person typed, without the marks that Claude Code puts around commands."""
    if text.find("<", 0, MAX_SEARCHED) < 0:
        return text
    return f"{_WORDS.sub(' ', text[:MAX_SEARCHED])}{text[MAX_SEARCHED:]}".strip(" \n")
