"""The request that led to a step, as far as it was recorded."""

from typing import Annotated, Any, get_args
from uuid import UUID

from pydantic import Field

from historyapp.core.request_tokens import Part
from historyapp.core.text import Text
from historyapp.core.windows import Beginning
from historyapp.wire import examples
from historyapp.wire.base import MONEY, Answer, shown

PLACES = ["end", "instruction", "history", "removed"]
SOURCES = ["snapshot", "served", "transcript", "log"]


class RequestWindowOut(Answer):
    """Where the request begins."""

    begins: Annotated[str, Field(json_schema_extra={"enum": list(get_args(Beginning))})] = Field(
        description="`session`: nothing was replaced. `compaction`, `cleared`: the agent did that at "
        "`position`. `older`: entries before `position` would not fit into the model's window."
    )
    position: int | None
    first_step: int = Field(description="The oldest step in the request; the step itself if there is none.")
    forgotten: int = Field(description="Entries that the agent's condenser had left out.")
    max_tokens: int | None = Field(description="The model's window in tokens; null if it is not known.")
    at_least: int = Field(
        description="Tokens that the window has at least: the largest input billed in it; 0 without usage."
    )


class RequestPartOut(Answer):
    part: Annotated[str, Field(json_schema_extra={"enum": list(get_args(Part))})]
    tokens: int = Field(description="Below zero for `removed`, and for `unseen` if something was left out.")


class BilledTokens(Answer):
    """Tokens as the provider reported them."""

    input: int = Field(description="Everything that was sent: `uncached`, `cache_read` and `cache_write`.")
    uncached: int
    cache_read: int
    cache_write: int
    output: int


class RequestTokensOut(Answer):
    billed: BilledTokens | None = Field(description="Null: no usage is recorded.")
    expected: int = Field(description="The sum of the parts.")
    difference: int | None = Field(description="The billed input less `expected`; null if not known.")
    parts: list[RequestPartOut]
    cost: float | str | None = Field(description=f"{MONEY} Null without usage.")


class ChangedPartOut(Answer):
    part: Annotated[str, Field(json_schema_extra={"enum": list(get_args(Part))})]
    position: int | None = Field(description="Of its entry.")
    step: int | None = Field(description="Of an output and of results.")


class RequestChangesOut(Answer):
    """The request beside that of the step before."""

    place: Annotated[str, Field(json_schema_extra={"enum": PLACES})] = Field(
        description="Where they differ first. `end`: the later one only goes on. `removed`: something was "
        "taken out that the log does not name."
    )
    first_byte: int | None = Field(
        description="The first byte that differs, of the request or of its rebuilt text; null where it is "
        "not known, and at the `end` of a rebuilt text."
    )
    part: ChangedPartOut | None = Field(description="The part of the request with that byte.")
    new_positions: list[int] = Field(description="The first and the last new entry; empty without any.")
    shared_tokens: int = Field(description="Tokens with which both begin.")
    reusable_tokens: int = Field(description="What a cache could have held of them.")
    missed_tokens: int | None = Field(description="What the provider did not read from its cache.")
    saved: float | str | None = Field(description="What the cache could save, in US dollars.")
    cached_cost: float | str | None = Field(
        description=f"Of the model call if a cache holds the whole shared part. {MONEY} Beside it stands "
        "`tokens.cost`, what was billed."
    )


class RequestMessageOut(Answer):
    role: Annotated[str, Field(json_schema_extra={"enum": ["system", "user", "assistant", "tool"]})]
    position: int | None = None
    step: int | None = None
    tokens: int | None = None
    content: dict[Text, Any] = Field(
        description="The fields of the entry; of a snapshot, the message as the provider got it."
    )


class RecordedRequestOut(Answer):
    """What the model saw before a step."""

    model_config = shown(examples.RECORDED_REQUEST)

    step: int
    position: int = Field(description="Of the output that answered the request.")
    source: Annotated[str, Field(json_schema_extra={"enum": SOURCES})] = Field(
        description="`snapshot`: the output names it. `served`: the newest context served just before. "
        "`transcript`: rebuilt from an import. `log`: all that was live; the request is not recorded."
    )
    model: Text
    snapshot: UUID | None
    sha256: str | None = Field(description="Of the snapshot's request.")
    window: RequestWindowOut
    tokens: RequestTokensOut
    changes: RequestChangesOut | None = Field(description="Null at the first step.")
    notes: list[Text]
    total: int = Field(description="How many messages the request has.")
    messages: list[RequestMessageOut]
    next: str | None = Field(description="The cursor of the next messages; null on the last page.")
