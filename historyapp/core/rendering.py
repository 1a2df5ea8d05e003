"""Episodes as text, exactly as users of the earlier episodic histories know it (SEMANTICS A)."""

import json
from collections.abc import Iterable
from typing import Any

from historyapp.core.entries import ModelOutput, ToolResult
from historyapp.core.episodes import Episode
from historyapp.core.results import result_text

JUDGED_STEP = "execute_step"
"""The action of a step that was recorded whole, with its analysis and its supervision."""


def call_text(name: str, arguments: Any) -> str:
    """``name(k=repr(v), …)``; arguments that are not an object stand as one ``repr``."""
    if not isinstance(arguments, dict):
        return f"{name}({arguments!r})"
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def calls_text(output: ModelOutput) -> str:
    """A step's action; several provider calls are joined by semicolons. Empty for a final answer."""
    if output.use_tool:
        return call_text(output.use_tool.name, output.use_tool.arguments)
    return "; ".join(call_text(call.name, call.arguments) for call in output.tool_calls)


def long_form(episode: Episode) -> str:
    """The step with its reasoning, status and result, over several lines."""
    status = "did_not_finish" if episode.status in ("in_flight", "abandoned") else episode.status
    text = (
        f"Executed `{calls_text(episode.output)}`\n" if episode.action else "Answered\n"
    ) + f'- **Reasoning:** "{episode.thoughts}"\n- **Status:** `{status}`\n'
    if not episode.action:
        text += f"- **Answer:** {_block(episode.output.text)}"
    elif episode.result:
        text += _result_lines(episode.result)
    late = "".join(f"- **Late result:** {_block(result_text(result))}\n" for result in episode.late)
    return f"{text.rstrip()}\n{late}" if late else text


def _result_lines(result: ToolResult) -> str:
    match result.status:
        case "success":
            return f"- **Output:** {_block(result_text(result))}"
        case "interrupted_by_human":
            return f"- **Feedback:** {result.feedback or ''}\n"
        case _:
            error = f"- **Error:** {result.error.repr}\n" if result.error else ""
            return f"- **Reason:** {result.reason or ''}\n{error}"


def _block(text: str) -> str:
    return "\n" + _indent(text, 4) if "\n" in text else text


def _indent(text: str, spaces: int) -> str:
    """Every line moved right, blank ones too."""
    pad = " " * spaces
    return pad + text.replace("\n", "\n" + pad)


def detailed_form(episode: Episode) -> str:
    """A judged step by its analysis, execution and supervision (SEMANTICS C), any other in its long form."""
    review = episode.reviews[-1] if episode.reviews else None
    action, result = episode.action, episode.result
    if review is None or result is None or action is None or action.name != JUDGED_STEP:
        return long_form(episode)
    texts = {"Analysis": review.analysis, "Execution": result.outputs, "Supervision": review.supervision}
    return "\n" + "\n".join(f"- **{name}:** {_block(_told(text))}" for name, text in texts.items())


def _told(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def short_form(episode: Episode) -> str:
    """The step in one sentence."""
    if not episode.action:
        return f"Answered: {episode.output.text}"
    call = f"Executed `{calls_text(episode.output)}`"
    return f"{call}: {result_text(episode.result)}" if episode.result else f"{call}."


def as_list(episodes: Iterable[Episode]) -> str:
    """Short forms, numbered by step, one a line."""
    return "\n".join(f"{episode.number}. {short_form(episode)}" for episode in episodes)


def as_paragraphs(episodes: Iterable[Episode]) -> str:
    """Long forms under a heading each, joined by blank lines."""
    return "\n\n".join(f"### Step {episode.number}: {long_form(episode)}\n" for episode in episodes)


def progress_line(episode: Episode, *, full: bool = False) -> str:
    """``* Step N:`` with the summary, or the long form where ``full`` or where there is none."""
    if episode.summary is not None and not full:
        return f"* Step {episode.number}: {episode.summary}"
    return f"* Step {episode.number}: {_indent(long_form(episode), 2).strip()}"
