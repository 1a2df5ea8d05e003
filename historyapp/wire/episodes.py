"""Steps: in lists, and with their bodies."""

from datetime import datetime
from typing import Annotated, Any, get_args

from pydantic import Field

from historyapp.core.conversation import Status, call_text
from historyapp.core.entries import ResultStatus
from historyapp.core.text import Text
from historyapp.wire import examples
from historyapp.wire.base import Page, ResponseModel, with_example

StepStatus = Annotated[str, Field(json_schema_extra={"enum": list(get_args(Status))})]


class EpisodeFacts(ResponseModel):
    number: int
    status: StepStatus
    first_position: int
    last_position: int
    tokens: int
    started_at: datetime | None = Field(description="Null if the transcript has no times.")
    finished_at: datetime | None
    kind: str = Field(
        default="",
        description="The kind of the first tool call: `shell`, `read`, `edit`, `search`, `web`, `plan`, "
        "`agent` or `other`; empty if the step has no tool call.",
    )
    target: Text = Field(
        default="",
        description="The command, file, pattern, URL or task of the first tool call, up to 200 characters.",
    )
    likely_failure: str = Field(
        default="",
        description="The rule by which a result that was reported as a success looks like a failure; empty "
        "if none matches.",
    )
    error_line: Text = Field(
        default="",
        description="The first line that says what failed, reported or likely, up to 200 characters.",
    )
    turn: int = Field(
        default=0,
        description="The number of the step's turn. A turn begins with the first step after an input from a "
        "person, or after a slash command that the model answers. 0 before the first turn.",
    )


class EpisodeItem(EpisodeFacts):
    """A step in a list: previews of up to 200 characters."""

    model_config = with_example(examples.EPISODE_ITEM)

    tool_names: list[Text]
    input_preview: Text = Field(description="Inputs to the agent since the previous step.")
    thought_preview: Text
    call_preview: Text
    result_preview: Text


class ActionOut(ResponseModel):
    name: Text
    arguments: Any


class ToolCallOut(ResponseModel):
    id: Text
    name: Text
    arguments: Any


class ErrorOut(ResponseModel):
    """A Python exception as data."""

    args: list[Any]
    message: Text
    exception_type: Text
    repr: Text


class ResultOut(ResponseModel):
    """The result of the action; several results are shown as one."""

    tool_call_id: Text | None = None
    tool_name: Text | None = None
    status: Annotated[str, Field(json_schema_extra={"enum": list(get_args(ResultStatus))})]
    outputs: Any = None
    reason: Text | None = None
    error: ErrorOut | None = None
    feedback: Text | None = None


class EpisodeOut(EpisodeFacts):
    """A step with its bodies."""

    model_config = with_example(examples.EPISODE)

    thoughts: Text | dict[Text, Any] | None
    action: ActionOut | None = Field(
        description="The first action if there are several; null if there is none."
    )
    tool_calls: list[ToolCallOut]
    result: ResultOut | None = Field(description="Several results are shown as one.")
    summary: Text | None
    formatted: Text = Field(description="The long form.")
    short: Text = Field(description="The short form: the action and its result in one sentence.")

    def format(self) -> str:
        """The long form."""
        return self.formatted

    def __str__(self) -> str:
        return self.formatted

    @property
    def call(self) -> str:
        """The action as ``name(argument=value)``; empty if the step has none."""
        return call_text(self.action.name, self.action.arguments) if self.action else ""


class EpisodePage(Page[EpisodeItem | EpisodeOut]):
    model_config = with_example({"items": [examples.EPISODE_ITEM], "next": None})
