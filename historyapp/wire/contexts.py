"""Contexts, and the history as text and as messages."""

from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from historyapp.core.text import Text
from historyapp.wire import examples
from historyapp.wire.base import ResponseModel, with_example


class TextOut(ResponseModel):
    model_config = with_example({"text": "1. Executed `read_file(path='parser.py')`: def parse(text): …"})

    text: Text


class SegmentOut(ResponseModel):
    """One part of a context and where it comes from."""

    source: Annotated[
        str,
        Field(
            json_schema_extra={
                "enum": ["system", "notebook", "tools", "input", "step", "live_screen", "overhead"]
            }
        ),
    ]
    step: int | None = Field(
        default=None, description="For `step`: the step's number, or the first step of a summary."
    )
    last_step: int | None = None
    position: int | None = Field(default=None, description="For `input`: the entry's position.")
    form: Annotated[str, Field(json_schema_extra={"enum": ["full", "clipped", "masked", "summarised"]})] = (
        "full"
    )
    summary: str | None = Field(default=None, description="For the form `summarised`: the summary's id.")
    tokens: int


class LeftOutRange(ResponseModel):
    """Steps or inputs that are not in the context, and why."""

    first_step: int | None = None
    last_step: int | None = None
    position: int | None = Field(
        default=None, description="The position of the input, or of the first input of a range."
    )
    last_position: int | None = Field(
        default=None,
        description="The last position of a range. Inputs that have a segment are in the context.",
    )
    reason: Text


class ReasoningOut(ResponseModel):
    """Reasoning blocks that are not sent although their steps are in the context, and why."""

    first_step: int
    last_step: int
    blocks: int
    reason: Text


class FullHistoryOut(ResponseModel):
    """The expected input cost of a request with this context, compared with the full live history. Both
    assume that the provider's cache serves the beginning that is equal to the previous request's."""

    tokens: int = Field(description="Tokens of all live entries.")
    micros: int = Field(description="Millionths of a US dollar for the full history.")
    context_micros: int = Field(description="Millionths of a US dollar for this context.")
    break_even_tokens: int = Field(
        description="Tokens of the largest full history that costs no more than this context."
    )


class ManifestOut(ResponseModel):
    """The parts of a context with their form and tokens, and what was left out."""

    policy: str
    max_tokens: int | None = Field(description="The budget in tokens; null: no limit.")
    tokens: int = Field(description="Tokens of all segments, by Playhead's own count.")
    segments: list[SegmentOut] = []
    left_out: list[LeftOutRange] = []
    reasoning_left_out: list[ReasoningOut] = Field(
        default=[],
        description="Only of steps that are messages in the context. Other steps never send reasoning.",
    )
    notes: list[Text] = []
    full_history: FullHistoryOut | None = Field(
        default=None, description="Null: all of it is in the context, or the model's price is unknown."
    )


class MessageOut(ResponseModel):
    """One message, independent of any provider's format."""

    role: Annotated[str, Field(json_schema_extra={"enum": ["system", "user", "assistant", "tool"]})]
    content: Any = Field(description="Text, or a list of parts as in `model_input`.")
    tool_calls: list[Any] | None = None
    tool_call_id: Text | None = None
    is_error: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The message with the fields that the server sent."""
        return self.model_dump(exclude_unset=True)


class MessagesOut(ResponseModel):
    model_config = with_example({"messages": [examples.MESSAGE], "manifest": examples.MANIFEST})

    messages: list[MessageOut]
    manifest: ManifestOut


class ContextTokens(ResponseModel):
    """Input tokens of a context."""

    estimated: int = Field(
        description="Tokens of the whole request by Playhead's own count. Text is exact for OpenAI's models."
    )
    counted: int | None = Field(
        description="Tokens by the provider's count endpoint; null if it was not used."
    )
    factor: float = Field(description="The factor from Playhead's own count to the model's tokens.")
    error: float | None = Field(
        description="Mean error of estimates for this model, as a share of the billed tokens; null: unknown."
    )
    learned_from: int = Field(
        description="The number of model calls with reported usage from which `factor` is learned."
    )


class ContextOut(ResponseModel):
    """The context for the next model call."""

    model_config = with_example(examples.CONTEXT)

    request: dict[Text, Any] = Field(
        description="The part of the provider's request that holds the context, tools included."
    )
    manifest: ManifestOut
    tokens: ContextTokens
    snapshot: UUID | None = Field(description="The id of the snapshot, or null if none was recorded.")
    sha256: str = Field(description="SHA-256 of the request's canonical bytes, without the live screen.")
