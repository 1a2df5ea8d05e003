"""``playhead completion``, and the completions that a shell requests when the user presses Tab."""

import sys
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import argcomplete
from argcomplete.shell_integration import shellcode

from historyapp.terminal.safe_text import safe_line
from historyapp.terminal.server import Server

MAX_SESSIONS = 20
_SESSIONS = ("session", "sessions", "a", "b")
"""Arguments that name a session."""
_MAX_TITLE = 60


def print_script(shell: str) -> None:
    """Prints the completion script for a shell."""
    sys.stdout.write(shellcode(["playhead"], shell=shell))


def complete(parser: ArgumentParser, server_of: Callable[[Namespace], Server]) -> None:
    """Prints the completions, and exits."""

    def sessions(prefix: str, parsed_args: Namespace, **_: Any) -> Mapping[str, str]:
        """The titles of sessions by id, for ids with this prefix, newest first. Empty if the server fails."""
        with suppress(Exception):
            page = server_of(parsed_args).get(
                "/sessions", id=prefix or None, status="all", limit=MAX_SESSIONS
            )
            return {item["id"]: safe_line(item["title"])[:_MAX_TITLE] for item in page["items"]}
        return {}

    for action in _arguments(parser):
        if action.dest in _SESSIONS:
            action.completer = sessions  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser)


def _arguments(parser: ArgumentParser) -> list[Action]:
    """The arguments of a parser and of its commands."""
    arguments: list[Action] = []
    for action in parser._actions:
        arguments.append(action)
        if isinstance(action.choices, Mapping):
            for command in action.choices.values():
                arguments += _arguments(command)
    return arguments
