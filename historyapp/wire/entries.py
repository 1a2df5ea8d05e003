"""The log: entries, and the responses to writes."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from historyapp.core.entries import Body, load_body
from historyapp.core.text import Text
from historyapp.wire import examples
from historyapp.wire.base import Page, ResponseModel, with_example

Reason = Annotated[
    str, Field(json_schema_extra={"enum": ["answered", "abandoned", "unknown", "no_open_call"]})
]


class UnpairedOut(ResponseModel):
    """A result that matched no open tool call. It is recorded, and contexts show it as a late result."""

    position: int = Field(description="The position of the entry that contains it.")
    index: int = Field(description="Its index among the results of that entry, from 0.")
    tool_call_id: Text | None
    reason: Reason = Field(
        description="`answered`: the tool call already has a result. `abandoned`: the next step started "
        "before its step had all results. `unknown`: none of the newest 10 steps has such a tool call. "
        "`no_open_call`: the result names no tool call, and none is open."
    )
    step: int | None = Field(description="The step of the tool call, or null if it is not known.")


class AppendedOut(ResponseModel):
    model_config = with_example({"positions": [1, 2, 3], "head": 3, "unpaired": []})

    positions: list[int] = Field(description="The positions of the entries, in the order of the request.")
    head: int
    unpaired: list[UnpairedOut] = Field(
        default=[], description="Results among the entries that matched no open tool call."
    )


class RegisteredOut(ResponseModel):
    model_config = with_example({"position": 2, "number": 1, "head": 2})

    position: int = Field(description="The position of the newest entry that was appended.")
    number: int = Field(description="The step's number in the live history.")
    head: int


class EntryOut(ResponseModel):
    """One record of the log. The fields of its kind are in ``fields``, and typed in ``body``."""

    model_config = with_example(examples.ENTRY)

    position: int
    kind: str
    created_at: datetime | None = Field(description="Null if the transcript has no times.")
    metadata: dict[Text, Any]
    tokens: int = Field(description="Tokens of the entry as a model would read it, by Playhead's own count.")
    live: bool = Field(description="False in a take: a part that a rewind cut off.")

    @property
    def fields(self) -> Mapping[str, Any]:
        return self.model_extra or {}

    @property
    def body(self) -> Body:
        """The entry's body as a model of ``historyapp.core``.

        Raises:
            pydantic.ValidationError: when a newer server has a kind or a field that this client lacks.
        """
        return load_body(self.kind, self.fields)


class EntryPage(Page[EntryOut]):
    model_config = with_example({"items": [examples.ENTRY], "next": None})
