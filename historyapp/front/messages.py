"""What the web process and the processes for its requests send to each other.

Imports nothing, because the web process loads what such processes need only with the first of them.
"""

from typing import Any

Message = tuple[str, Any]
"""A kind and a content, see :func:`historyapp.front.request_process.carry_out`."""
UNSENT = ("wsgi.input", "wsgi.errors")
"""The values of a WSGI environment that are not sent."""
PIECE = 1 << 20
"""Bytes of one message."""
SECONDS = 60.0
"""The processor time of one large request. A context of 6,000 steps with long lines takes 30 s."""
