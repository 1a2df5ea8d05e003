"""Pages: ``{items, next}``, where ``next`` is an opaque cursor.

A cursor remembers the position as of which the first page was read, so that all pages show one state.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Any
from uuid import UUID

from pydantic import BeforeValidator, Field

from historyapp.api.fields import uuid_or_none, whole
from historyapp.core.json import dump_json
from historyapp.wire.problems import NotValid

Limit = Annotated[
    int, Field(ge=1, le=500, description="How many items a page holds."), BeforeValidator(whole)
]
Cursor = Annotated[
    str,
    Field(
        max_length=500,
        description="`next` of the page before. Keep the other parameters as they were.",
    ),
]


FOREIGN_CURSOR = "This cursor belongs to another list. Send next of the page before, unchanged."


def encode_cursor(list_name: str, *values: int | str) -> str:
    """A cursor for the next page of a list."""
    return urlsafe_b64encode(dump_json([list_name, *values]).encode()).decode().rstrip("=")


def decode_cursor(list_name: str, cursor: str, *types: type[int] | type[str]) -> list[Any]:
    """The values that :func:`encode_cursor` was given.

    Raises:
        NotValid: when it belongs to another list.
    """
    try:
        data = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        data = None
    if isinstance(data, list) and data[:1] == [list_name]:
        values = data[1:]
        if len(values) == len(types) and all(map(_fits, values, types)):
            return values
    raise NotValid(FOREIGN_CURSOR)


def decode_id(list_name: str, cursor: str) -> UUID:
    """The id of the last item of the page before, where :func:`encode_cursor` was given that alone.

    Raises:
        NotValid: when it belongs to another list.
    """
    (text,) = decode_cursor(list_name, cursor, str)
    id = uuid_or_none(text)
    if id is None:
        raise NotValid(FOREIGN_CURSOR)
    return id


def _fits(value: Any, wanted: type[int] | type[str]) -> bool:
    """Whether a value is of its type and, a number, such as the database can compare with."""
    if wanted is int:
        return type(value) is int and 0 <= value < 2**31
    return isinstance(value, str)
