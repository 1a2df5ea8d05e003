"""Errors that only the client has; the others are :mod:`historyapp.wire.problems`' and the core's."""

from collections.abc import Mapping
from typing import Any

from historyapp.core.errors import PlayheadError
from historyapp.wire.problems import ServerFailed, error_class


class NotPlayhead(ServerFailed):
    """The server is not Playhead: it sent HTML or another API's answer. The text says what to check."""


class NotSpooled(PlayheadError):
    """The server cannot be reached, and the spool cannot take the write either: it is recorded nowhere."""


class NotYetKnown(PlayheadError, AttributeError):
    """A write that waits in the spool has no position and no number until the server has it."""


def error_of(problem: Mapping[str, Any]) -> PlayheadError:
    """The error that a problem document stands for; it must have a ``status``."""
    error = error_class(str(problem.get("type", "")).rpartition("#")[2], problem["status"])
    fields = {name: value for name, value in problem.items() if name != "detail"}
    return error(str(problem.get("detail") or problem.get("title") or "no details"), **fields)
