"""The recorded request that led to a step."""

from typing import Annotated, Any, get_args
from uuid import UUID

from pydantic import Field

from historyapp.core.request_tokens import Part
from historyapp.core.text import Text
from historyapp.core.windows import Beginning
from historyapp.wire import examples
from historyapp.wire.base import MONEY, ResponseModel, with_example

PLACES = ["end", "instruction", "history", "removed"]
SOURCES = ["snapshot", "served", "transcript", "log"]


class RequestWindowOut(ResponseModel):
    """Where the request begins."""

    begins: Annotated[str, Field(json_schema_extra={"enum": list(get_args(Beginning))})] = Field(
        description="`session`: nothing was replaced. `compaction`, `cleared`: the agent compacted or "
        "cleared the context at `position`. `older`: entries before `position` would not fit into the "
        "model's window."
    )
    position: int | None
    first_step: int = Field(
        description="The oldest step in the request; this step's number if it has no older step."
    )
    forgotten: int = Field(description="Entries that the agent's condenser had left out.")
    max_tokens: int | None = Field(
        description="The model's window in tokens, as recorded, otherwise the usual one; null if unknown."
    )
    at_least: int = Field(
        description="The least size of the window in tokens: the largest billed input of the run up to "
        "`as_of`; 0 without usage. Takes, forks, later steps and the sessions that it was forked from count "
        "only if they show that the model's usual window is wrong."
    )


class RequestPartOut(ResponseModel):
    part: Annotated[str, Field(json_schema_extra={"enum": list(get_args(Part))})]
    tokens: int = Field(description="Negative for `removed`, and for `unseen` if something was left out.")


class BilledTokens(ResponseModel):
    """Tokens as the provider reported them."""

    input: int = Field(description="Everything that was sent: `uncached`, `cache_read` and `cache_write`.")
    uncached: int
    cache_read: int
    cache_write: int
    output: int


class RequestTokensOut(ResponseModel):
    billed: BilledTokens | None = Field(description="Null: no usage is recorded.")
    expected: int = Field(description="The sum of the parts.")
    difference: int | None = Field(description="The billed input minus `expected`; null if unknown.")
    parts: list[RequestPartOut]
    cost: float | str | None = Field(description=f"{MONEY} Null without usage.")


class ChangedPartOut(ResponseModel):
    part: Annotated[str, Field(json_schema_extra={"enum": list(get_args(Part))})]
    position: int | None = Field(description="The position of the part's entry.")
    step: int | None = Field(description="The step of an output or of results.")


class RequestChangesOut(ResponseModel):
    """The request compared with the previous step's request."""

    place: Annotated[str, Field(json_schema_extra={"enum": PLACES})] = Field(
        description="Where they first differ. `end`: the later request only adds to the earlier one. "
        "`removed`: something was removed that the log does not name, or the thoughts of an earlier turn."
    )
    first_byte: int | None = Field(
        description="The first byte that differs, of the request or of its rebuilt text; null if it is "
        "unknown, and at the `end` of a rebuilt text."
    )
    part: ChangedPartOut | None = Field(description="The part of the request that contains that byte.")
    new_positions: list[int] = Field(description="The first and the last new entry; empty without any.")
    shared_tokens: int = Field(description="Tokens of the beginning that both share.")
    reusable_tokens: int = Field(description="The shared tokens that a cache could have held.")
    missed_tokens: int | None = Field(
        description="The reusable tokens that the provider did not read from its cache."
    )
    saved: float | str | None = Field(description="The amount that the cache could save, in US dollars.")
    cached_cost: float | str | None = Field(
        description=f"The cost of the model call if a cache holds the whole shared part. {MONEY} "
        "`tokens.cost` is the billed cost."
    )


class RequestMessageOut(ResponseModel):
    role: Annotated[
        str, Field(json_schema_extra={"enum": ["system", "developer", "user", "assistant", "tool"]})
    ]
    position: int | None = None
    step: int | None = None
    tokens: int | None = None
    content: dict[Text, Any] = Field(
        description="The fields of the entry; for a snapshot, the message as the provider received it."
    )


class RecordedRequestOut(ResponseModel):
    """The model's input before a step."""

    model_config = with_example(examples.RECORDED_REQUEST)

    step: int
    position: int = Field(description="The position of the output that the request led to.")
    source: Annotated[str, Field(json_schema_extra={"enum": SOURCES})] = Field(
        description="`snapshot`: the output names its snapshot. `served`: the newest context that was served "
        "before the output. `transcript`: rebuilt from an import. `log`: all live entries, because the "
        "request is not recorded."
    )
    model: Text
    snapshot: UUID | None
    sha256: str | None = Field(description="The hash of the snapshot's request.")
    window: RequestWindowOut
    tokens: RequestTokensOut
    changes: RequestChangesOut | None = Field(description="Null at the first step.")
    notes: list[Text]
    total: int = Field(description="The number of messages in the request.")
    messages: list[RequestMessageOut]
    next: str | None = Field(description="The cursor of the next messages; null on the last page.")
