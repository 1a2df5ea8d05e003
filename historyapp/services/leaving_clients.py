"""Whether the client of a model call still waits for its response."""

from collections.abc import Callable
from contextvars import ContextVar

has_client_left: ContextVar[Callable[[], bool]] = ContextVar("has_client_left", default=lambda: False)
"""Returns whether the client of this thread's request has closed its connection. Set by ``historyapp.front``.
"""
