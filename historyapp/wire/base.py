"""The base of all responses of the HTTP API. The server writes responses; the Python client reads them."""

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from historyapp.core.lineage import Lineage
from historyapp.wire import examples

Item = TypeVar("Item")

MONEY = 'US dollars by the price list; `"unknown"` if the model has no known price.'


def with_example(example: dict[str, Any]) -> ConfigDict:
    """A model configuration with an example for the OpenAPI document."""
    return ConfigDict(json_schema_extra={"examples": [example]})


class ResponseModel(BaseModel):
    """Base of all responses. A client accepts fields and enum values that a newer server adds.

    So a field with a fixed set of values is declared as text, with the values as ``enum`` in the OpenAPI
    document.
    """

    model_config = ConfigDict(frozen=True, extra="allow")


class Page(ResponseModel, Generic[Item]):
    items: list[Item]
    next: str | None = Field(default=None, description="The cursor of the next page; null on the last page.")


class RangeOut(ResponseModel):
    """Entries of one session, both ends included."""

    model_config = with_example(examples.RANGE)

    session: str
    first_position: int
    last_position: int

    @classmethod
    def all_of(cls, lineage: Lineage) -> list["RangeOut"]:
        """One range for each span of a lineage, oldest first."""
        return [
            cls(session=span.session, first_position=span.first, last_position=span.last)
            for span in lineage.spans
        ]
