"""Where the names in a step's action appeared before, and which later actions used the step's results."""

from typing import Annotated, get_args

from pydantic import Field

from historyapp.core.origins import Match, NameKind, Origin, Role
from historyapp.core.text import Text
from historyapp.core.windows import Beginning
from historyapp.wire import examples
from historyapp.wire.base import ResponseModel, with_example

_Kind = Annotated[str, Field(json_schema_extra={"enum": list(get_args(NameKind))})]
_Role = Annotated[str, Field(json_schema_extra={"enum": list(get_args(Role))})]
_Origin = Annotated[str, Field(json_schema_extra={"enum": list(get_args(Origin))})]
_Window = Annotated[str, Field(json_schema_extra={"enum": list(get_args(Beginning))})]
_Match = Annotated[str, Field(json_schema_extra={"enum": list(get_args(Match))})]


class NamePlaceOut(ResponseModel):
    """A place in the log where a name appears."""

    model_config = with_example(examples.NAME_PLACE)

    position: int
    step: int = Field(description="The step; for an input, the step before it; 0 before the first step.")
    role: _Role | None = Field(description="The text that contains it; null in very large entries.")
    line: int | None = Field(
        description="The line number within the text, from 1; null in very large entries."
    )
    text: Text = Field(description="The line, up to 200 characters; empty in very large entries.")


class NameOriginOut(ResponseModel):
    """A name in the action of a step."""

    model_config = with_example(examples.NAME_ORIGIN)

    name: Text
    kind: _Kind
    call: int = Field(description="The index of the first tool call that contains it.")
    origin: _Origin = Field(
        description="`given`: an input, instruction or result contains it. `own`: only the agent's earlier "
        "text contains it. `nowhere`: no earlier text contains it. `unknown`: not all of the log has been "
        "read."
    )
    match: _Match | None = Field(
        description="`whole`: the exact text. `end`: only the beginning differs. `parts`: the parts of "
        "the name appeared."
    )
    first: NamePlaceOut | None = Field(description="Where it first appeared.")
    first_given: NamePlaceOut | None = Field(
        description="The first input, instruction or result that contains it, if that is another place; "
        "otherwise null."
    )
    last_position: int | None = Field(description="Where it last appeared before the step.")
    in_view: bool | None = Field(
        description="Whether the recorded request contained it; null if it appeared nowhere or this "
        "cannot be known."
    )
    acted_on: bool = Field(description="Whether the tool call needs a file of this name to exist.")


class UsedNameOut(ResponseModel):
    name: Text
    step: int = Field(description="The first later step whose action contains it.")


class UsedLineOut(ResponseModel):
    """A line of the step's results with a name that a later action contains."""

    result: int
    line: int
    text: Text
    names: list[UsedNameOut]


class OriginsOut(ResponseModel):
    """The origins of the names in a step's action."""

    model_config = with_example(examples.ORIGINS)

    number: int
    complete: bool = Field(description="Whether the whole log before the step is in the index of names.")
    window: _Window = Field(
        description="Why the recorded request began where it did; `older`: older entries would not have "
        "fitted."
    )
    compacted_at: int | None = Field(
        description="The position at which the context was last compacted or cleared."
    )
    names: list[NameOriginOut]
    used: list[UsedLineOut]
    result_used: bool | None = Field(
        description="Whether a later action uses a name from the results; null if this cannot be known."
    )
    places: list[NamePlaceOut] | None = Field(
        description="Where the `name` of the query appears, oldest first; null without a `name`."
    )
