"""Errors that only the client raises. The others are in ``wire.problems`` and ``core.errors``."""

from collections.abc import Mapping
from typing import Any

from historyapp.core.errors import PlayheadError
from historyapp.wire.problems import PROBLEM_TYPES, Malformed, ServerFailed, ServerUnavailable


class NotPlayhead(ServerFailed):
    """The server is not Playhead: it sent HTML or another API's response. The message says what to check."""


class NotSpooled(PlayheadError):
    """The write was not recorded: the server cannot be reached, and the spool is full or unusable."""


class NotYetKnown(PlayheadError, AttributeError):
    """The write is still in the spool: it has no position and no number until the server has recorded it."""


def error_of(problem: Mapping[str, Any]) -> PlayheadError:
    """The exception for a problem document, which must have a ``status``."""
    error = _error_class(str(problem.get("type", "")).rpartition("#")[2], problem["status"])
    fields = {name: value for name, value in problem.items() if name != "detail"}
    return error(str(problem.get("detail") or problem.get("title") or "no details"), **fields)


def _error_class(code: str, status: int) -> type[PlayheadError]:
    """The exception for a problem document, even if the code is unknown."""
    if error := next((type.error for type in PROBLEM_TYPES if type.code == code), None):
        return error
    if status in (429, 502, 503, 504):
        return ServerUnavailable
    by_status = {type.status: type.error for type in reversed(PROBLEM_TYPES)}
    return by_status.get(status, Malformed if 400 <= status < 500 else ServerFailed)
