"""What can go wrong, as a small tree. The API maps it to problem documents in one place.

Each error says in ``detail`` what is wrong and what to do; ``fields`` holds figures that a program can use.
"""

from typing import Any, ClassVar


class PlayheadError(Exception):
    """Base of all expected errors. ``slug`` names the kind in URLs, ``title`` names it for people."""

    slug: ClassVar[str] = "error"
    title: ClassVar[str] = "Something went wrong"

    def __init__(self, detail: str, **fields: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.fields = fields


class NotFound(PlayheadError):
    slug, title = "not-found", "Not found"


class Conflict(PlayheadError):
    """The request does not fit the session's state; reading it again and trying anew may help."""

    slug, title = "conflict", "Conflict"


class Invalid(PlayheadError):
    """The request is well formed but cannot be carried out as it stands."""

    slug, title = "invalid", "Invalid request"


class UnreadableTranscript(PlayheadError):
    """A file that is no transcript of any supported format, or not of the one that was named."""

    slug, title = "unreadable-transcript", "Unreadable transcript"
