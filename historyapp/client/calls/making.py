"""Descriptions in one line each: what is null is left out, and times are sent with their zone."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from historyapp.client.answers import Answer, Page
from historyapp.client.description import Call, Pages
from historyapp.client.errors import NotFound

_PART = re.compile(r"[A-Za-z0-9_-]+")
Id = UUID | str
A = TypeVar("A", bound=Answer)


def at(*parts: Id | int) -> str:
    """The path of these parts.

    Raises:
        NotFound: for an id that would lead elsewhere; servers undo the quoting of slashes.
    """
    texts = [str(part) for part in parts]
    for text in texts:
        if not _PART.fullmatch(text):
            raise NotFound({"detail": f"There is nothing with the id {text[:100]!r}."})
    return "/" + "/".join(texts)


def get(path: str, answer: type[A], **query: Any) -> Call[A]:
    return Call("GET", path, answer.model_validate, given(query))


def post(path: str, answer: type[A], body: Mapping[str, Any], *, key: str | None = None) -> Call[A]:
    return Call("POST", path, answer.model_validate, body=given(body), idempotency_key=key)


def pages(path: str, item: type[A], **query: Any) -> Pages[A]:
    return Pages(Call("GET", path, Page[item].model_validate, given(query)))  # type: ignore[valid-type]


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are not null."""
    return {name: _plain(value) for name, value in fields.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    # As everywhere in Python, a time without a zone is local time.
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
