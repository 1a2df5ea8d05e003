"""What can go wrong, as a small tree like the core's. Each error carries the server's problem document."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one parameter or field."""

    loc: tuple[str | int, ...]
    message: str


class PlayheadError(Exception):
    """Base of all errors of this client. It never holds the API key.

    Args:
        problem: the problem document (RFC 9457) as the server sent it; of an error that came about
            without an answer only ``detail``.
    """

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(dict(problem))
        self.problem = dict(problem)

    def __str__(self) -> str:
        return self.detail

    @property
    def status(self) -> int | None:
        """The HTTP status; None when there was no answer."""
        status = self.problem.get("status")
        return status if isinstance(status, int) else None

    @property
    def detail(self) -> str:
        """What is wrong and what to do, in words."""
        return str(self.problem.get("detail") or self.problem.get("title") or "no details")


class Malformed(PlayheadError):
    """The server could not read the request (400, 405, 411, 415 …): this client does not fit it."""


class Unauthenticated(PlayheadError):
    """The API key is unknown, expired or revoked (401)."""


class Forbidden(PlayheadError):
    """The API key lacks a scope (403)."""

    @property
    def scope(self) -> str | None:
        """The one that is missing."""
        return self.problem.get("scope")


class NotFound(PlayheadError):
    """The project has no such thing (404)."""


class Conflict(PlayheadError):
    """The request does not fit the session as it stands (409). Reading it again and trying anew may help."""

    @property
    def head(self) -> int | None:
        """The session's head where ``expected_position`` was another."""
        return self.problem.get("head")


class TooLarge(PlayheadError):
    """The body is larger than the server takes (413)."""

    @property
    def max_body(self) -> int | None:
        """What it takes, in bytes."""
        return self.problem.get("max_body")


class Invalid(PlayheadError):
    """The request is not valid or cannot be carried out (422)."""

    @property
    def errors(self) -> tuple[FieldError, ...]:
        """What is wrong with which fields; empty where each is valid on its own."""
        found = self.problem.get("errors")
        return tuple(
            FieldError(tuple(error.get("loc", ())), str(error.get("message", "")))
            for error in (found if isinstance(found, list) else ())
            if isinstance(error, dict)
        )

    @property
    def smallest(self) -> int | None:
        """Where a budget was too small: one that works, in tokens."""
        return self.problem.get("smallest")


class UnreadableTranscript(Invalid):
    """None of the files is a transcript that can be imported."""


class ModelCallFailed(PlayheadError):
    """The provider of a model gave no answer (502), also when the server asked again where that may help."""

    @property
    def provider(self) -> str | None:
        return self.problem.get("provider")

    @property
    def words(self) -> str | None:
        """What the provider said."""
        return self.problem.get("words")

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later."""
        return self.problem.get("retryable") is True


class ServerFailed(PlayheadError):
    """A fault of the server (5xx)."""


class NotPlayhead(ServerFailed):
    """What answers is not Playhead: a page of HTML, another API, a proxy. The text says what to check."""


class ServerUnavailable(PlayheadError):
    """No answer, or only "later" (429, 502, 503, 504), until the time was over; see ``on_outage``."""

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the server wants to be asked again."""
        return self.problem.get("retry_after")


class NotSpooled(PlayheadError):
    """The server cannot be reached, and the spool cannot take the write either: it is recorded nowhere."""


class NotYetKnown(PlayheadError, AttributeError):
    """A write that waits in the spool has no position and no number until the server has it."""


_BY_NAME: dict[str, type[PlayheadError]] = {
    "unreadable-transcript": UnreadableTranscript,
    "model-call-failed": ModelCallFailed,
}
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


def error_of(problem: Mapping[str, Any]) -> PlayheadError:
    """The error that a problem document stands for; it must have a ``status``."""
    status = problem["status"]
    other = Malformed if 400 <= status < 500 else ServerFailed
    name = str(problem.get("type", "")).rpartition("#")[2]
    return _BY_NAME.get(name, _BY_STATUS.get(status, other))(problem)
