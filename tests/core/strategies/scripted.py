"""Steps to summarise, and a model that responds from a script and keeps its prompts."""

from collections.abc import Callable, Iterable
from typing import Any

from historyapp.core.entries import Body, ModelOutput, Review, ToolCall, ToolResult, ToolResults, UseTool
from historyapp.core.episodes import Episode, group_episodes
from historyapp.core.language import load_language
from historyapp.core.strategies.base import Resources, SummaryPrompt
from tests.core.entries import session


class Model:
    """Gives its responses in turn and repeats the last one. A response may be a function of the prompt."""

    def __init__(self, *answers: str | Callable[[SummaryPrompt], str]) -> None:
        self._answers = list(answers)
        self.prompts: list[SummaryPrompt] = []

    def __call__(self, prompt: SummaryPrompt) -> str:
        self.prompts.append(prompt)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return answer if isinstance(answer, str) else answer(prompt)


def resources(ask: Model | None = None, **fields: Any) -> Resources:
    return Resources(load_language("en_core_web_sm")[0], ask, **fields)


def called(
    result: Any = "ok", name: str = "read_file", status: Any = "success", thoughts: str = "", **arguments: Any
) -> list[Body]:
    """The entries of a step with one call."""
    call = ToolCall(id="1", name=name, arguments=arguments or {"path": "src/a_b.py"})
    text_field = {"success": "outputs", "interrupted_by_human": "feedback"}.get(status, "reason")
    tool_result = ToolResult(tool_call_id="1", status=status, **{text_field: result})
    return [ModelOutput(tool_calls=(call,), thoughts=thoughts), ToolResults(results=(tool_result,))]


def judged(analysis: Any, execution: Any, supervision: Any, **review: Any) -> list[Body]:
    """The entries of a step of the sliding-window history."""
    return [
        ModelOutput(thoughts=str(analysis), use_tool=UseTool(name="execute_step")),
        ToolResults(results=(ToolResult(tool_name="execute_step", status="success", outputs=execution),)),
        Review(analysis=analysis, supervision=supervision, **review),
    ]


def steps(*groups: Iterable[Body]) -> tuple[Episode, ...]:
    return tuple(group_episodes(session(*(body for bodies in groups for body in bodies))))
