"""Which inputs begin a turn: a person's words, and commands that a person typed and the model answers.

Claude Code records a slash command as text with tags, on the channel ``command``. If the model answers it,
the text begins with a message: ``<command-message>review is running…</command-message>``. If Claude Code runs
it itself, as ``/model``, the text begins with the command's name, and it begins no turn. In the corpus, the
model answered all 14 commands of the first form in Claude Code files, and none of the 22 of the second that
Claude Code wrote, 2026-11-29.
"""

import re
from typing import Any, NamedTuple

from historyapp.core.entries import INTERRUPTION, PERSON, Body, DebugLog, ModelInput, text_of
from historyapp.core.scanning import enclosed

COMMAND = "command"
"""The channel of commands that a person typed to the agent's program, and of their outputs."""
TURN_ABORTED = "turn_aborted"
"""The category of Codex's events that say that a turn was interrupted."""
INTERRUPTION_NOTES = ("[Request interrupted by user", "<turn_aborted>")
"""The beginnings of the inputs that tell the model that a person interrupted it."""
_ANSWERED, _BY_MODEL = "<command-message>", '<command-message>The "'
"""The beginnings of a command that the model answers, and of the note that the model itself runs a skill."""
_NAME, _END_OF_NAME = re.compile("<command-name>"), re.compile("</command-name>")
_ARGUMENTS, _END_OF_ARGUMENTS = re.compile("<command-args>"), re.compile("</command-args>")
_DELEGATION = re.compile(
    r"<codex_delegation>\s{0,99}(?:<source_thread_id>([^<]{0,200})</source_thread_id>\s{0,99})?<input>"
)
"""Before a task that a person gave in one thread of Codex, which passed it on to this one."""
_END_OF_DELEGATION, _MAX_END = "</input>", 200
"""What follows the task, and the maximum number of characters from there to the end of the text."""


def begins_turn(channel: str, content: Any) -> bool:
    """Whether the next step begins a turn because of this input."""
    return channel == PERSON or (channel == COMMAND and _is_answered(content))


def is_interruption(body: Body) -> bool:
    """Whether an entry says that a person interrupted the model.

    Claude Code and Codex tell the model. Older versions of Codex recorded only an event.
    """
    if isinstance(body, ModelInput):
        return body.channel == INTERRUPTION
    return isinstance(body, DebugLog) and body.category == TURN_ABORTED


def _is_answered(content: Any) -> bool:
    first = content[0] if isinstance(content, list) and content else content
    text = first.get("text") if isinstance(first, dict) else first
    return isinstance(text, str) and text.startswith(_ANSWERED) and not text.startswith(_BY_MODEL)


class Delegation(NamedTuple):
    """A task that another thread of Codex passed on."""

    thread: str
    """The id of that thread, or empty."""
    task: str
    """The person's words."""


def delegation_in(text: str) -> Delegation | None:
    """The task of an input that Codex wrapped in the tag ``codex_delegation``, or None."""
    if (match := _DELEGATION.match(text)) is None:
        return None
    end = text.rfind(_END_OF_DELEGATION, match.end())
    closing = text[end:].split() if end >= 0 and len(text) <= end + _MAX_END else []
    is_end = closing == [_END_OF_DELEGATION, "</codex_delegation>"]
    return Delegation(match[1] or "", text[match.end() : end if is_end else len(text)])


def typed_text(channel: str, content: Any) -> str:
    """The text of an input; of a command that the model answers, its name and arguments; of a task that
    Codex passed on, the task."""
    text = text_of(content)
    if channel == PERSON and (delegation := delegation_in(text)):
        return delegation.task.strip() or text
    return (typed_command(text) or text) if channel == COMMAND and _is_answered(content) else text


def typed_command(text: str) -> str:
    """The name and the arguments of a slash command; empty if the text has none."""
    names = [part.inside for part in enclosed(text, _NAME, _END_OF_NAME)]
    arguments = [part.inside for part in enclosed(text, _ARGUMENTS, _END_OF_ARGUMENTS)]
    return " ".join(names[-1:] + arguments[-1:]).strip()
