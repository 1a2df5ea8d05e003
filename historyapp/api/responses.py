"""Responses: JSON that keeps any text, and 304 where the reader already has the answer."""

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.http import parse_etags

from historyapp.api.fields import iso
from historyapp.core.json import dump_json
from historyapp.models import Session
from historyapp.wire.base import Answer

A = TypeVar("A", bound=Answer)
Content = Answer | dict[str, Any]
"""An answer; or the same fields as JSON values, where they come from storage as they are."""

REPLAYED = {"Idempotency-Replayed": "true"}
"""Headers of the response to a request that was answered before."""
_WRITTEN_AS_THEY_ARE = (str, int, bool, float, type(None), dict)


def fill(model: type[A], source: object, /, **fields: Any) -> A:
    """The answer with these fields, and the others from the source's attributes of the same name."""
    assert fields.keys() <= model.model_fields.keys()
    found = {name: getattr(source, name) for name in model.model_fields if name not in fields}
    return model(**found, **fields)


def json_value(value: Any) -> Any:
    """The value as JSON has it: of an answer, the fields that were set.

    Values of ``dict`` are JSON already and stay as they are, with all that agents recorded. pydantic's own
    ``model_dump_json`` would walk through them, and refuses lone surrogates.
    """
    if isinstance(value, _WRITTEN_AS_THEY_ARE):
        return value
    if isinstance(value, Answer):
        given = value.model_fields_set
        return {name: json_value(field) for name, field in value.__dict__.items() if name in given}
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, datetime):
        return iso(value)
    assert isinstance(value, UUID), type(value)
    return str(value)


def reply(content: Content, status: int = 200) -> HttpResponse:
    """JSON. An answer was validated when it was made; nothing is validated again."""
    body = dump_json(json_value(content))
    return HttpResponse(body, status=status, content_type="application/json")


def reply_or_304(
    request: HttpRequest, session: Session, make: Callable[[], Content], *, state: str = ""
) -> HttpResponse:
    """The answer that ``make`` returns; 304 without calling it while the ``If-None-Match`` holds.

    Args:
        state: what the answer depends on apart from the session and the query.
    """
    query = hashlib.sha256(f"{request.META.get('QUERY_STRING', '')}{state}".encode()).hexdigest()[:8]
    # Weak: it names the state that an answer was made from, not the answer's bytes.
    tag = f'W/"{session.shared_revision}-{query}"'
    known = parse_etags(request.META.get("HTTP_IF_NONE_MATCH", ""))
    response = HttpResponseNotModified() if tag in known or known == ["*"] else reply(make())
    response["ETag"] = tag
    response["Cache-Control"] = "private, no-cache"
    return response
