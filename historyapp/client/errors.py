"""Errors that only the client has; the others are :mod:`historyapp.wire.problems`' and the core's."""

from collections.abc import Mapping
from typing import Any

from historyapp.core.errors import Conflict, Invalid, NotFound, PlayheadError
from historyapp.wire.problems import (
    Forbidden,
    Malformed,
    ServerFailed,
    ServerUnavailable,
    TooLarge,
    Unauthenticated,
    error_class,
)


class NotPlayhead(ServerFailed):
    """What answers is not Playhead: a page of HTML, another API, a proxy. The text says what to check."""


class NotSpooled(PlayheadError):
    """The server cannot be reached, and the spool cannot take the write either: it is recorded nowhere."""


class NotYetKnown(PlayheadError, AttributeError):
    """A write that waits in the spool has no position and no number until the server has it."""


_BY_STATUS: dict[int, type[PlayheadError]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    422: Invalid,
    429: ServerUnavailable,
    502: ServerUnavailable,
    503: ServerUnavailable,
    504: ServerUnavailable,
}
"""For codes that a newer server has and this client does not know."""


def error_of(problem: Mapping[str, Any]) -> PlayheadError:
    """The error that a problem document stands for; it must have a ``status``."""
    code, status = str(problem.get("type", "")).rpartition("#")[2], problem["status"]
    other = Malformed if 400 <= status < 500 else ServerFailed
    error = error_class(code) or _BY_STATUS.get(status, other)
    fields = {name: value for name, value in problem.items() if name != "detail"}
    return error(str(problem.get("detail") or problem.get("title") or "no details"), **fields)
