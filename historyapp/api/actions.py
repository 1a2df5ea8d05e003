"""Registers actions and results one at a time, or appends whole steps."""

import sys
from typing import Annotated, Any, Literal

from django.http import HttpResponse
from ninja import Router
from pydantic import Field, ValidationError

from historyapp.api.auth import ApiRequest
from historyapp.api.fields import Moment, RecordRequest, RequestBody, SessionId
from historyapp.api.problems import raises
from historyapp.api.responses import json_response
from historyapp.api.validation import not_valid
from historyapp.core.actions import (
    ActionError,
    ActionInterrupted,
    ActionProposal,
    ActionSuccess,
    output_of,
)
from historyapp.core.entries import (
    Body,
    EntryDraft,
    ModelOutput,
    Review,
    Thoughts,
    ToolResult,
    ToolResults,
    UseTool,
)
from historyapp.core.errors import Conflict
from historyapp.core.json import text_or_json
from historyapp.core.rendering import JUDGED_STEP
from historyapp.core.text import Text
from historyapp.services.actions import register_action, register_result
from historyapp.services.append import AppendedEntries, append
from historyapp.wire import examples
from historyapp.wire.base import with_example
from historyapp.wire.entries import RegisteredOut

router = Router(tags=["actions"])

_SUCCESS = {"status": "success", "outputs": "def parse(text): …"}


class ActionIn(RecordRequest, ActionProposal):
    model_config = with_example({"thoughts": "Look at the parser first.", "use_tool": examples.USE_TOOL})

    raw_message: dict[Text, Any] | None = Field(
        default=None,
        description="The assistant message as the provider returned it: `content` and `tool_calls`.",
    )


class SuccessIn(RecordRequest, ActionSuccess):
    model_config = with_example(_SUCCESS)

    status: Literal["success"]


class ErrorIn(RecordRequest, ActionError):
    model_config = with_example({"status": "error", "reason": "parser.py does not exist."})

    status: Literal["error"]


class InterruptedIn(RecordRequest, ActionInterrupted):
    model_config = with_example({"status": "interrupted_by_human", "feedback": "Read the tests first."})

    status: Literal["interrupted_by_human"]


ResultIn = Annotated[SuccessIn | ErrorIn | InterruptedIn, Field(discriminator="status", examples=[_SUCCESS])]


class StepIn(RequestBody):
    model_config = with_example(
        {
            "analysis_result": "The parser drops the last line.",
            "execution_result": {"changed": ["parser.py"]},
            "supervision_result": {"score": 0.9, "passed": True},
        }
    )

    analysis_result: Any = Field(description="The intention of the step. Stored as its thoughts.")
    execution_result: Any = Field(description="The result of the step.")
    supervision_result: Any = Field(
        description="The review of the step. `score` and `passed` are read from it if it is an object."
    )
    timestamp: Moment | None = Field(default=None, description="When it happened; null: now.")


@router.post("/sessions/{session_id}/actions", response={201: RegisteredOut}, summary="Register an action")
@raises(Conflict)
def post_action(request: ApiRequest, session_id: SessionId, action: ActionIn) -> HttpResponse:
    """Register the action before it runs. 409 while another action is in flight."""
    draft = EntryDraft(output_of(action), action.created_at, action.metadata)
    expected = action.expected_position
    return _registered(register_action(request.auth.project, session_id, draft, expected_position=expected))


@router.post("/sessions/{session_id}/results", response={201: RegisteredOut}, summary="Register a result")
@raises(Conflict)
def post_result(request: ApiRequest, session_id: SessionId, result: ResultIn) -> HttpResponse:
    """One result for the whole action in flight, even if it has several tool calls. 409 if no action is in
    flight."""
    fields = result.model_dump(exclude=_RECORD_FIELDS, exclude_none=True)
    draft = EntryDraft(ToolResults(results=(ToolResult(**fields),)), result.created_at, result.metadata)
    expected = result.expected_position
    return _registered(register_result(request.auth.project, session_id, draft, expected_position=expected))


@router.post("/sessions/{session_id}/steps", response={201: RegisteredOut}, summary="Append a whole step")
@raises(Conflict)
def post_step(request: ApiRequest, session_id: SessionId, step: StepIn) -> HttpResponse:
    """Action, result and review in one append."""
    drafts = [EntryDraft(body, step.timestamp) for body in step_bodies(step)]
    return _registered(append(request.auth.project, session_id, drafts))


_RECORD_FIELDS = set(RecordRequest.model_fields)


def _registered(appended: AppendedEntries) -> HttpResponse:
    head = appended.head
    return json_response(RegisteredOut(position=head, number=appended.session.steps, head=head), 201)


def step_bodies(step: StepIn) -> tuple[Body, ...]:
    """The entries of a step: the model's output, its result, and the review.

    Raises:
        NotValid: when the analysis is an object that thoughts cannot be.
    """
    analysis, supervision = step.analysis_result, step.supervision_result
    thoughts: str | Thoughts | None
    if isinstance(analysis, dict):
        thoughts = _thoughts_of(analysis)
    else:
        thoughts = None if analysis is None else text_or_json(analysis)
    result = ToolResult(tool_name=JUDGED_STEP, status="success", outputs=step.execution_result)
    review_fields = supervision if isinstance(supervision, dict) else {}
    score, passed = review_fields.get("score"), review_fields.get("passed")
    if not isinstance(score, (int, float)) or isinstance(score, bool) or abs(score) > sys.float_info.max:
        score = None
    review = Review(
        analysis=analysis,
        supervision=supervision,
        score=score,
        passed=passed if isinstance(passed, bool) else None,
    )
    output = ModelOutput(thoughts=thoughts, use_tool=UseTool(name=JUDGED_STEP))
    return output, ToolResults(results=(result,)), review


def _thoughts_of(analysis: dict[str, Any]) -> Thoughts:
    try:
        return Thoughts.model_validate(analysis)
    except ValidationError as error:  # a name with a lone surrogate
        place = ("body", "step", "analysis_result")
        errors = error.errors(include_url=False, include_input=False)
        raise not_valid([{**each, "loc": (*place, *each["loc"])} for each in errors]) from error
