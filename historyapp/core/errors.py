"""What can go wrong, as a small tree. The API maps it to problem documents in one place.

Each error says in ``detail`` what is wrong and what to do; ``fields`` holds figures that a program can use.
"""

from typing import Any, ClassVar


class PlayheadError(Exception):
    """Base of all expected errors.

    ``slug`` names the kind in URLs, ``title`` names it for people, ``http_status`` is what both front ends
    answer it with.
    """

    slug: ClassVar[str] = "error"
    title: ClassVar[str] = "Something went wrong"
    http_status: ClassVar[int] = 500

    def __init__(self, detail: str, **fields: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.fields = fields


class NotFound(PlayheadError):
    slug, title, http_status = "not-found", "Not found", 404


class Conflict(PlayheadError):
    """The request does not fit the session's state; reading it again and trying anew may help."""

    slug, title, http_status = "conflict", "Conflict", 409


class Invalid(PlayheadError):
    """The request is well formed but cannot be carried out as it stands."""

    slug, title, http_status = "invalid", "Invalid request", 422


class UnreadableTranscript(PlayheadError):
    """A file that is no transcript of any supported format, or not of the one that was named."""

    slug, title, http_status = "unreadable-transcript", "Unreadable transcript", 422
