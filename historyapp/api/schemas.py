"""Shapes that several calls share."""

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from historyapp.api.fields import Metadata, Moment, Position, RequestBody
from historyapp.core.lineage import Lineage, Span
from historyapp.wire import examples

Item = TypeVar("Item")


def shown(example: dict[str, Any]) -> ConfigDict:
    """The configuration of a model with an example in the OpenAPI document."""
    return ConfigDict(json_schema_extra={"examples": [example]})


class Page(BaseModel, Generic[Item]):
    items: list[Item]
    next: str | None = Field(description="The cursor of the next page; null on the last one.")


class Expecting(RequestBody):
    """Base of what appends to a session."""

    expected_position: Position | None = Field(
        default=None,
        description="The head that you saw; 409 when it is another by now. Null: wherever the head is.",
    )


class Recorded(Expecting):
    """Base of what becomes entries."""

    metadata: Metadata = Field(
        default_factory=dict, description="Free: source, latency, provider, `usage`, `cost` (US dollars) …"
    )
    created_at: Moment | None = Field(default=None, description="When it happened; null: now.")


class Range(BaseModel):
    """Entries of one session, both ends included."""

    model_config = shown(examples.RANGE)

    session: str
    first_position: int
    last_position: int


def ranges(lineage: Lineage) -> list[dict[str, Any]]:
    """A lineage's spans as :class:`Range`, oldest first."""
    return [_range(span) for span in lineage.spans]


def _range(span: Span) -> dict[str, Any]:
    return {"session": span.session, "first_position": span.first, "last_position": span.last}
