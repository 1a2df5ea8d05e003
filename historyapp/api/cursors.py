"""Pages: ``{items, next}``, where ``next`` is an opaque cursor.

A cursor contains the head at the time of the first page, so that all pages show the same state.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, Field

from historyapp.api.fields import AsOf, uuid_or_none, whole_number
from historyapp.core.json import dump_json
from historyapp.wire.problems import NotValid

Row = TypeVar("Row")
Limit = Annotated[
    int,
    Field(ge=1, le=500, description="Maximum number of items on a page."),
    BeforeValidator(whole_number),
]
Cursor = Annotated[
    str,
    Field(max_length=500, description="`next` of the previous page. Keep the other parameters unchanged."),
]
_MAX = 2**31
"""Integers from here on do not fit into the database's columns."""


class PageQuery(BaseModel):
    """Query parameters of a list in a session."""

    limit: Limit = 50
    cursor: Cursor | None = None
    as_of: AsOf = None


def encode_cursor(list_name: str, *values: int | str | UUID | datetime) -> str:
    """A cursor for the next page of a list."""
    plain = [value if isinstance(value, (int, str)) else str(value) for value in values]
    return urlsafe_b64encode(dump_json([list_name, *plain]).encode()).decode().rstrip("=")


def decode_cursor(list_name: str, cursor: str, *types: type) -> list[Any]:
    """The values that were passed to :func:`encode_cursor`.

    Args:
        types: the types of the values: ``int``, ``str``, ``UUID`` or ``datetime``.

    Raises:
        NotValid: when the text is not a cursor of this list.
    """
    try:
        name, *values = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if name == list_name:
            return [_parse_value(value, kind) for value, kind in zip(values, types, strict=True)]
    except (ValueError, TypeError, RecursionError):
        pass
    raise NotValid("This cursor belongs to another list. Send `next` of the previous page, unchanged.")


def _parse_value(value: object, kind: type) -> int | str | UUID | datetime:
    if kind is int and type(value) is int and 0 <= value < _MAX:
        return value
    if isinstance(value, str):
        if kind is str:
            return value
        if kind is datetime:
            return datetime.fromisoformat(value)
        if kind is UUID and (id := uuid_or_none(value)):
            return id
    raise ValueError(f"not a {kind.__name__}")


def cut_page(
    list_name: str, rows: Sequence[Row], limit: int, cursor_values: Callable[[Row], tuple[Any, ...]]
) -> tuple[Sequence[Row], str | None]:
    """The rows of a page, and the cursor of the next page, or None if the list ends here.

    Args:
        rows: the rows of the page, and one more if there is a next page.
        cursor_values: returns the cursor's values for the last row of the page.
    """
    page = rows[:limit]
    return page, encode_cursor(list_name, *cursor_values(page[-1])) if len(rows) > limit else None
