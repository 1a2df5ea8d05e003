"""Proposed actions as agents register them (SEMANTICS B). Their results are in ``results``."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from historyapp.core.entries import GivenThoughts, ModelOutput, ToolCall, UseTool, check_unknown_fields
from historyapp.core.provider_messages import read_message


class ActionProposal(BaseModel):
    """One proposed action. Its public JSON schema leaves ``raw_message`` out: models must not write that."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_unknown_fields(cls, value: Any) -> Any:
        return check_unknown_fields(cls, value)

    thoughts: GivenThoughts = None
    use_tool: UseTool
    raw_message: SkipJsonSchema[dict[str, Any] | None] = Field(default=None)
    """The assistant message as the provider gave it: ``content`` and ``tool_calls``."""


def output_of(proposal: ActionProposal) -> ModelOutput:
    """The log entry for a proposal, with what its raw message says."""
    return completed(
        ModelOutput(thoughts=proposal.thoughts, use_tool=proposal.use_tool, raw_message=proposal.raw_message)
    )


def completed(output: ModelOutput) -> ModelOutput:
    """The output with the text, thoughts, calls and reasoning of its raw message where it has none itself.

    What is given stays, and so does the raw message. Every way in uses this; entries that are stored
    already, and those of transcripts, stay as they are.
    """
    if output.raw_message is None:
        return output
    message = read_message(output.raw_message)
    found = {
        "text": message.text,
        "thoughts": message.thoughts,
        "tool_calls": tuple(ToolCall(**call) for call in message.tool_calls),
        "reasoning": list(message.reasoning),
    }
    missing = {name: value for name, value in found.items() if value and not getattr(output, name)}
    return output.model_copy(update=missing) if missing else output
