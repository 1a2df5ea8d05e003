"""Responses: JSON that preserves any text, and 304 if the client already has the response."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from typing import Any, TypeVar
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import parse_etags

from historyapp.api.fields import iso
from historyapp.core.json import dump_json
from historyapp.core.json_parts import encoded_parts
from historyapp.models import Session
from historyapp.models.long_rows import bytes_read
from historyapp.wire.base import ResponseModel

Model = TypeVar("Model", bound=ResponseModel)
Content = ResponseModel | dict[str, Any] | str
"""A response model, a dictionary of JSON values from storage, or a text that already is JSON."""

LONG = 1 << 22
"""The response of a request that has read more bytes is streamed."""
REPLAYED = {"Idempotency-Replayed": "true"}
"""Headers of a stored response to a repeated request."""
_JSON = {"Content-Type": "application/json"}
_JSON_TYPES = {str, int, bool, float, type(None), dict}


@cache
def _field_names(model: type[ResponseModel]) -> tuple[str, ...]:
    return tuple(model.model_fields)


def fill(model: type[Model], source: object, /, **fields: Any) -> Model:
    """A model with these fields. Its other fields are the source's attributes of the same names."""
    values = {name: getattr(source, name) for name in _field_names(model) if name not in fields}
    return model(**values, **fields)


def fill_json(model: type[ResponseModel], source: object, /, **fields: Any) -> dict[str, Any]:
    """As :func:`fill`, but as JSON values and not validated: for long lists that are read often.

    A list of 200 steps took 1.4 times as long with a model for each step.
    """
    return {
        name: json_value(fields[name] if name in fields else getattr(source, name))
        for name in _field_names(model)
    }


def json_value(value: Any) -> Any:
    """Converts a value to a JSON value; a response model, to an object of the fields that were set.

    A ``dict`` already contains JSON values that agents recorded, and is returned unchanged. pydantic's
    ``model_dump_json`` would walk through it, and refuses lone surrogates.
    """
    if type(value) in _JSON_TYPES:
        return value
    if isinstance(value, ResponseModel):
        set_fields = value.model_fields_set
        return {
            name: field if type(field) in _JSON_TYPES else json_value(field)
            for name, field in value.__dict__.items()
            if name in set_fields
        }
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if isinstance(value, datetime):
        return iso(value)
    return str(value) if isinstance(value, (UUID, date)) else value


def json_response(content: Content, status: int = 200) -> HttpResponse:
    """A JSON response. The content was validated when it was created and is not validated again."""
    body = content if isinstance(content, str) else dump_json(json_value(content))
    # Django would find out the encoding of a text from the content type.
    return HttpResponse(body.encode(), status=status, headers=_JSON)


@dataclass(frozen=True, slots=True)
class LongResponse:
    """A response of more than ``KEPT_CHARACTERS``, which a repeated request does not get.

    A view that has written returns it instead of a response, because its transaction may still be open:
    others wait for its end.
    """

    status: int
    make: Callable[[], Content]
    """Called after the end of the transaction."""

    def response(self) -> HttpResponse:
        return json_response(self.make(), self.status)


def response_or_304(
    request: HttpRequest, session: Session, make_content: Callable[[], Content], *, state: str = ""
) -> HttpResponseBase:
    """The response with the content, or 304 without making the content if ``If-None-Match`` matches.

    Args:
        state: other state that the response depends on, in addition to the session and the query.
    """
    query = hashlib.sha256(f"{request.META.get('QUERY_STRING', '')}{state}".encode()).hexdigest()[:8]
    # A weak tag: it identifies the state from which the response was made, not its bytes.
    tag = f'W/"{session.shared_revision}-{query}"'
    client_tags = parse_etags(request.META.get("HTTP_IF_NONE_MATCH", ""))
    response = (
        HttpResponseNotModified()
        if tag in client_tags or client_tags == ["*"]
        else _read_response(make_content())
    )
    response["ETag"] = tag
    response["Cache-Control"] = "private, no-cache"
    return response


def _read_response(content: Content) -> HttpResponseBase:
    """The response to a read. A long one is streamed in parts, because JSON in ASCII takes six bytes for each
    letter of most languages: 15 MB of them, four times in a response, took 1 GB.
    """
    if isinstance(content, str) or bytes_read() <= LONG:
        return json_response(content)
    parts = encoded_parts(json_value(content))
    return StreamingHttpResponse((part.encode() for part in parts), headers=_JSON)


AT_ONCE = 10
"""The number of rows with bodies that are in memory at the same time while a page is built."""
MAX_PAGE_BYTES = 8 * 1024 * 1024
"""A page ends after this many bytes of JSON, because bodies may be large and clients may read slowly."""


class LargePage:
    """The JSON of a page whose items have bodies."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self._size = 0

    @property
    def is_full(self) -> bool:
        return self._size >= MAX_PAGE_BYTES

    def add(self, item: dict[str, Any]) -> None:
        self.items.append(dump_json(item))
        self._size += len(self.items[-1])

    def json(self, cursor: str | None) -> str:
        return f'{{"items":[{",".join(self.items)}],"next":{dump_json(cursor)}}}'
