"""Actions and their results as agents register them. Results as text are in ``results``."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from historyapp.core.embedded_json import shared_value_limit
from historyapp.core.entries import (
    ErrorDetails,
    ModelOutput,
    StoredModel,
    ThoughtsInput,
    ToolCall,
    ToolResult,
    UseTool,
    check_unknown_fields,
)
from historyapp.core.json import DUMP_ERRORS, depth_exceeds, dump_json
from historyapp.core.provider_messages import read_message
from historyapp.core.text import Text

_MAX_DEPTH = 100
"""An argument of an exception that is nested deeper is stored as its ``repr``. The API's own limit is
higher."""


class ActionProposal(BaseModel):
    """One proposed action. Its public JSON schema leaves ``raw_message`` out: models must not write that."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_unknown_fields(cls, value: Any) -> Any:
        return check_unknown_fields(cls, value)

    thoughts: ThoughtsInput = None
    use_tool: UseTool
    raw_message: SkipJsonSchema[dict[str, Any] | None] = Field(default=None)
    """The assistant message as the provider returned it: ``content`` and ``tool_calls``."""


def output_of(proposal: ActionProposal) -> ModelOutput:
    """The log entry for a proposal, with missing fields taken from its raw message."""
    return with_raw_message_fields(
        ModelOutput(thoughts=proposal.thoughts, use_tool=proposal.use_tool, raw_message=proposal.raw_message)
    )


def with_raw_message_fields(output: ModelOutput) -> ModelOutput:
    """The output, with missing text, thoughts, tool calls and reasoning taken from its raw message.

    Other fields and the raw message stay unchanged. Every append uses this, except for transcripts.
    """
    if output.raw_message is None:
        return output
    with shared_value_limit():
        message = read_message(output.raw_message)
    fields = {
        "text": message.text,
        "thoughts": message.thoughts,
        "tool_calls": tuple(ToolCall(**tool_call) for tool_call in message.tool_calls),
        "reasoning": list(message.reasoning),
    }
    missing = {name: value for name, value in fields.items() if value and not getattr(output, name)}
    return output.model_copy(update=missing) if missing else output


class ActionSuccess(StoredModel):
    status: Literal["success"] = "success"
    outputs: Any = None


class ActionError(StoredModel):
    status: Literal["error"] = "error"
    reason: Text
    error: ErrorDetails | None = None


class ActionInterrupted(StoredModel):
    status: Literal["interrupted_by_human"] = "interrupted_by_human"
    feedback: Text


ActionResult = Annotated[ActionSuccess | ActionError | ActionInterrupted, Field(discriminator="status")]


def from_exception(exception: BaseException) -> ErrorDetails:
    """An exception as data. Works for every exception, also one whose ``str``, ``repr`` or ``args`` fail."""
    try:
        arguments = list(exception.args)
    except Exception:  # noqa: BLE001 a class may have replaced ``args``
        arguments = []
    args: list[Any] = []
    for argument in arguments:
        is_json = isinstance(argument, (str, int, float, bool, list, dict, type(None)))
        try:
            is_json = is_json and not depth_exceeds(argument, _MAX_DEPTH) and bool(dump_json(argument))
        except DUMP_ERRORS:
            is_json = False
        args.append(argument if is_json else _as_text(repr, argument))
    return ErrorDetails(
        args=args,
        message=_as_text(str, exception),
        exception_type=type(exception).__name__,
        repr=_as_text(repr, exception),
    )


def _as_text(to_text: type[str] | Any, value: object) -> str:
    try:
        return str(to_text(value))
    except Exception:  # noqa: BLE001 a broken __str__ or __repr__ may raise anything
        return f"<{type(value).__name__} that cannot be shown>"


def as_tool_result(result: ActionSuccess | ActionError | ActionInterrupted, tool_name: str) -> ToolResult:
    """The result of a whole action, which may have several tool calls."""
    fields = result.model_dump(exclude_none=True)
    return ToolResult(tool_name=tool_name, **fields)
