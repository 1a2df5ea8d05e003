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
MAX_PROCESSOR_SECONDS = 60.0
"""The processor time of one large request. A context of 6,000 steps with long lines takes 30 s."""


def sendable(environ: dict[str, Any]) -> dict[str, Any]:
    """A WSGI environment without its files."""
    return {name: value for name, value in environ.items() if name not in UNSENT}
