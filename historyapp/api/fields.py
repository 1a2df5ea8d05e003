"""The types of parameters and fields: each accepts exactly what its JSON schema says."""

import re
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from historyapp.core.dates import known_time
from historyapp.core.entries import check_unknown_fields
from historyapp.core.errors import NotFound
from historyapp.core.json import is_longer
from historyapp.core.session_metadata import MAX_METADATA, MAX_TAG, MAX_TITLE
from historyapp.core.text import Text
from historyapp.core.usage import MICRO
from historyapp.services.append import as_utc

MAX_POSITIONS = 2**31 - 1
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})?"
)


class RequestBody(BaseModel):
    """Base of request bodies: unknown fields and values of another type are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _check_unknown_fields(cls, value: Any) -> Any:
        return check_unknown_fields(cls, value)


def whole_number(value: object) -> object:
    """Parses a parameter's text; ``1_000``, ``5.0`` and `` 5`` are not whole numbers."""
    if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value):
        return int(value)
    raise PydanticCustomError("int_type", "must be a whole number")


def integral(value: object) -> object:
    """JSON has one number type: ``5.0`` is the whole number 5."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _parse_moment(value: object) -> datetime:
    if isinstance(value, str) and _RFC3339.fullmatch(value):
        try:
            return as_utc(datetime.fromisoformat(value.upper()))
        except (ValueError, OverflowError):
            pass
    raise PydanticCustomError("moment", "must be a date and time such as 2026-01-31T09:30:00Z")


def uuid_or_none(value: object) -> UUID | None:
    """The UUID of a text, or None."""
    return UUID(value) if isinstance(value, str) and _UUID.fullmatch(value) else None


def _parse_uuid(value: object) -> UUID:
    if id := uuid_or_none(value):
        return id
    raise PydanticCustomError("uuid", "must be a UUID such as 0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d")


_PROJECT_NOUNS = ("session", "saved What if", "webhook", "bulk action", "evaluation")


def not_found(noun: str, id: object) -> NotFound:
    """The same error for ids that are malformed, unknown, or of another project."""
    scope = "" if noun in _PROJECT_NOUNS else " in this session"
    return NotFound(f"There is no {noun} {str(id)[:100]}{scope}.")


def id_of(noun: str) -> PlainValidator:
    """Parses an id in a path. A malformed id gives 404, as an unknown id does."""

    def read(value: object) -> UUID:
        if id := uuid_or_none(value):
            return id
        raise not_found(noun, value)

    return PlainValidator(read)


UUID_SCHEMA = WithJsonSchema({"type": "string", "format": "uuid"})
SessionId = Annotated[UUID, id_of("session"), UUID_SCHEMA]
IdField = Annotated[UUID, PlainValidator(_parse_uuid), UUID_SCHEMA]
"""An id in a body or query. Unlike one in a path, a malformed id is an invalid field, not a 404."""
Moment = Annotated[
    datetime, PlainValidator(_parse_moment), WithJsonSchema({"type": "string", "format": "date-time"})
]
"""An RFC 3339 date and time; without a zone, it is in UTC."""

_POSITION = Field(ge=0, le=MAX_POSITIONS)
_STEP = Field(ge=-MAX_POSITIONS, le=MAX_POSITIONS)
Position = Annotated[int, _POSITION, BeforeValidator(integral)]
StepNumber = Annotated[int, _STEP, BeforeValidator(integral)]
"""Negative numbers count from the end: -1 is the newest step."""
QueryPosition = Annotated[int, _POSITION, BeforeValidator(whole_number)]
QueryStep = Annotated[int, _STEP, BeforeValidator(whole_number)]
PathPosition = Annotated[int, Field(ge=1, le=MAX_POSITIONS), BeforeValidator(whole_number)]

Line = Annotated[str, Field(pattern=r"^[^\x00]*$")]
"""Text in searchable columns. Unlike text in entries, it contains no NUL and no lone surrogates."""
Title = Annotated[Line, Field(max_length=MAX_TITLE)]
Name = Annotated[Line, Field(max_length=200)]
Tag = Annotated[str, Field(pattern=r"^[^\x00-\x1f]*$", min_length=1, max_length=MAX_TAG)]
Metadata = dict[Text, Any]


def json_limit(limit: int, message: str) -> AfterValidator:
    """Refuses a value with more characters as compact JSON in ASCII.

    Args:
        message: the error; ``{limit}`` stands for the limit.
    """

    def check(value: Any) -> Any:
        if is_longer(value, limit):
            raise PydanticCustomError("json_size", message, {"limit": f"{limit:,}"})
        return value

    return AfterValidator(check)


SessionMetadata = Annotated[
    Metadata,
    json_limit(
        MAX_METADATA,
        "has more than {limit} characters as JSON. Send less, and append larger facts as entries",
    ),
    Field(description=f"Any fields, at most {MAX_METADATA:,} characters as compact JSON in ASCII."),
]

AsOf = Annotated[
    QueryPosition | None, Field(description="Return the session as it was when this position was its head.")
]


class AppendRequest(RequestBody):
    """Base of requests that append to a session."""

    expected_position: Position | None = Field(
        default=None, description="The head that you expect; 409 if it has changed. Null: no check."
    )


class RecordRequest(AppendRequest):
    """Base of requests that become entries."""

    metadata: Metadata = Field(
        default_factory=dict,
        description="Any fields: source, latency, provider, `usage`, `cost` (US dollars) …",
    )
    created_at: Moment | None = Field(default=None, description="When it happened; null: now.")


def iso(moment: datetime | None) -> str | None:
    """The time as in API responses, or None if it is unknown."""
    time = known_time(moment)
    return time.isoformat().replace("+00:00", "Z") if time else None


def money(micro: int | None) -> float | str:
    """Millionths of a dollar as in API responses: dollars, or ``unknown``."""
    return "unknown" if micro is None else micro / MICRO
