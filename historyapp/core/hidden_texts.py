"""Leaves people's texts out of a step, for share links and exported files that hide them."""

from collections.abc import Collection
from dataclasses import replace

from historyapp.core.conversation import PairedResult
from historyapp.core.entries import ToolResult
from historyapp.core.episodes import Episode as Step
from historyapp.core.person_tools import asking_names

HIDDEN_TITLE = "Session with a hidden title"
NOT_SHOWN = "Text that people wrote is hidden."
"""Shown instead of feedback and of answers to questions."""


def without_hidden_texts(step: Step) -> Step:
    """The step without reviews, feedback and answers of people."""
    names = [tool_call.name for tool_call in step.output.tool_calls]
    names += [step.output.use_tool.name] if step.output.use_tool else []
    is_question = bool(asking_names(names))
    asking = asking_names(paired.result.tool_name or "" for paired in step.received if not paired.calls)
    received = tuple([
        paired._replace(
            result=_without_texts(paired.result, hides_all=is_question or _may_be_answer(paired, asking))
        )
        for paired in step.received
    ])  # fmt: skip
    overall = tuple([NOT_SHOWN for _ in step.overall]) if is_question or asking else step.overall
    return replace(step, received=received, overall=overall, reviews=())


def _may_be_answer(paired: PairedResult, asking: Collection[str]) -> bool:
    """Whether a result may be a person's text, whatever tools the step calls.

    True for interruptions, and for late results of earlier steps that name no tool that asks nobody.

    Args:
        asking: the names of tools that ask a person.
    """
    result = paired.result
    if result.status == "interrupted_by_human":
        return True
    return not paired.calls and (not result.tool_name or result.tool_name in asking)


def _without_texts(result: ToolResult, *, hides_all: bool) -> ToolResult:
    changes: dict[str, object] = {"feedback": NOT_SHOWN} if result.feedback else {}
    if hides_all:
        changes |= {"outputs": NOT_SHOWN} if result.outputs is not None else {}
        changes |= {"reason": NOT_SHOWN} if result.reason else {}
        changes["error"] = None
    return result.model_copy(update=changes)
