"""What the web process and the processes for its requests send to each other.

Imports nothing, because the web process loads what such processes need only with the first of them.
"""

from typing import Any

Message = tuple[str, Any]
"""A kind and a content."""

BEGUN, FAILED = "begun", "failed"
"""The process has received the request; it could not carry the request out, for a reason in the log."""
OWNER, COUNT, WRITTEN = "owner", "count", "written"
"""Who sent the request; a count for ``/metrics``; the request has written something."""
LENT, RETURNED = "lent", "returned"
"""The request waits for a model's provider; it goes on."""
HEAD, BODY, END = "head", "body", "end"
"""The response: its status, its headers and whether it is a stream; a part of its body; its end."""

UNSENT = ("wsgi.input", "wsgi.errors")
"""The values of a WSGI environment that are not sent."""
MAX_PART = 1 << 20
"""The maximum bytes of one part of a body."""
MAX_PROCESSOR_SECONDS, MAX_READ_SECONDS = 60.0, 30.0
"""The processor time of one large request, and of one with GET or HEAD. A context of 6,000 steps with long
lines takes 30 s."""


def is_read(request: dict[str, Any]) -> bool:
    """Whether a request, given as its WSGI environment, changes nothing."""
    return request["REQUEST_METHOD"] in ("GET", "HEAD")


def max_processor_seconds(request: dict[str, Any]) -> float:
    """The processor time that a large request may take."""
    return MAX_READ_SECONDS if is_read(request) else MAX_PROCESSOR_SECONDS


def sendable(environ: dict[str, Any]) -> dict[str, Any]:
    """A WSGI environment without its files."""
    return {name: value for name, value in environ.items() if name not in UNSENT}
