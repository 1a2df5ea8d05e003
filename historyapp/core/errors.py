"""The errors of the server and the Python client, as a small tree of classes.

:mod:`historyapp.wire.problems` adds the errors that only the HTTP API has, and lists all of them with their
HTTP status and their meaning.
"""

from dataclasses import dataclass
from typing import Any, ClassVar


class PlayheadError(Exception):
    """Base of all expected errors. It never holds an API key.

    ``detail`` says what is wrong and what to do. ``fields`` holds values for programs. In the client it holds
    all other fields of the server's problem document.
    """

    code: ClassVar[str] = "unexpected"
    """The name of the error: the last part of a problem document's ``type``."""

    def __init__(self, detail: str, /, **fields: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.fields = fields

    @property
    def problem(self) -> dict[str, Any]:
        """In the client: the problem document (RFC 9457) as the server sent it."""
        return {**self.fields, "detail": self.detail}

    @property
    def status(self) -> int | None:
        """In the client: the HTTP status; None when there was no answer."""
        return self.fields.get("status")


class NotFound(PlayheadError):
    """The project has no such session, entry or step."""

    code = "not-found"


class Conflict(PlayheadError):
    """The request does not fit the session's state; reading the session again and retrying may help."""

    code = "conflict"

    @property
    def head(self) -> int | None:
        """The session's head, if ``expected_position`` was another position."""
        return self.fields.get("head")


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one parameter or field."""

    loc: tuple[str | int, ...]
    message: str


class Invalid(PlayheadError):
    """The request is well formed but cannot be carried out as it stands."""

    code = "invalid"

    @property
    def errors(self) -> tuple[FieldError, ...]:
        """The invalid fields; empty if each field is valid on its own."""
        errors = self.fields.get("errors")
        return tuple(
            FieldError(tuple(error.get("loc", ())), str(error.get("message", "")))
            for error in (errors if isinstance(errors, list) else ())
            if isinstance(error, dict)
        )

    @property
    def smallest(self) -> int | None:
        """If a budget was too small: the smallest one that works, in tokens."""
        return self.fields.get("smallest")


class UnreadableTranscript(Invalid):
    """A file is not a transcript of any supported format, or not of the format that the request names."""

    code = "unreadable-transcript"


class AddressNotAllowed(Invalid):
    """A webhook may not send to this address: it is private, or it belongs to the server's own machine."""

    code = "address-not-allowed"

    @property
    def host(self) -> str | None:
        """The host of the URL."""
        return self.fields.get("host")
