"""The limit of the values of JSON inside texts, such as the arguments of tool calls.

The limits of a body do not see such values: in its JSON they are one text. In memory, an empty list takes 20
times its JSON.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from historyapp.core.json_counts import count_values

MAX_EMBEDDED_VALUES = 200_000
"""Values of JSON inside texts, all texts of one body or message together. The arguments of a model's longest
response, 128,000 tokens, have about 64,000.
"""


class _Left:
    def __init__(self) -> None:
        self.values = MAX_EMBEDDED_VALUES


_shared: ContextVar[_Left | None] = ContextVar("embedded_values", default=None)


@contextmanager
def shared_value_limit() -> Iterator[None]:
    """All JSON inside texts that is read here shares one limit, that of the outermost use."""
    if _shared.get() is not None:
        yield
        return
    token = _shared.set(_Left())
    try:
        yield
    finally:
        _shared.reset(token)


def with_shared_limit(value: Any, validate: Callable[[Any], Any]) -> Any:
    """A pydantic validator of a field whose parts share the limit."""
    with shared_value_limit():
        return validate(value)


def holds_too_many_values(text: str) -> bool:
    """Whether a JSON text has more values than are left. If so, no later text has any left: counting a long
    text takes time.
    """
    left = _shared.get() or _Left()
    if left.values >= 0:
        left.values -= count_values(text, left.values)
    return left.values < 0
