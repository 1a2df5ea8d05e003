"""What a step's row shows of its output. It is found before the session is locked."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from historyapp.core.call_subjects import CallSubject, Kind, call_subject
from historyapp.core.conversation import calls_beginning, calls_text
from historyapp.core.entries import ModelOutput, ToolCall, UseTool
from historyapp.core.failures import Check, check_of
from historyapp.core.line_diff import WorkLeft
from historyapp.core.result_facts import call_figures
from historyapp.core.text import preview
from historyapp.core.waits import awaited_process

MAX_CHECKED = 50
"""At most this many calls of a step are checked for likely failures. The facts of each are stored with the
session until its result arrives."""
MAX_NAMES = 20
"""Names of tools in a row. Names of more than 100 characters end with "…"."""
_LONG = 2_000
"""Tokens of an output. For the preview of a longer one, only the beginning of its tool calls becomes text."""
_MANY = 50
"""Tool calls. Of an output with more, only the beginning is written for a preview."""
_READ_BY_PREVIEW = 1_000
"""Characters of this beginning. :func:`preview` reads at most 800."""


class OutputFacts(NamedTuple):
    """Fields of a step's row."""

    tool_names: tuple[str, ...]
    thought_preview: str
    call_preview: str
    result_preview: str
    """Of an output without tool calls: its text."""
    subject: CallSubject | None
    """Of the first tool call."""
    checks: Mapping[str, Check]
    """How to check the results of the calls, by the calls' ids."""
    awaited_process: str = ""
    """The id of the running command for which the first call waits, or empty."""


def output_facts(output: ModelOutput, tokens: int) -> OutputFacts:
    """The facts of an output that has this many tokens."""
    tool_calls: Sequence[UseTool | ToolCall] = (output.use_tool,) if output.use_tool else output.tool_calls
    subject = call_subject(tool_calls[0].name, tool_calls[0].arguments) if tool_calls else None
    return OutputFacts(
        tool_names=tuple([preview(tool_call.name, 100) for tool_call in tool_calls[:MAX_NAMES]]),
        thought_preview=preview(
            output.thoughts_beginning(_READ_BY_PREVIEW) or (output.text if tool_calls else "")
        ),
        call_preview=_call_preview(output, tokens) if tool_calls else "",
        result_preview="" if tool_calls else preview(output.text),
        subject=subject,
        checks=_checks(output, subject),
        awaited_process=awaited_process(tool_calls[0].arguments) if tool_calls else "",
    )


def _call_preview(output: ModelOutput, tokens: int) -> str:
    is_short = tokens <= _LONG and len(output.tool_calls) <= _MANY
    return preview(calls_text(output) if is_short else calls_beginning(output, _READ_BY_PREVIEW))


def _checks(output: ModelOutput, first: CallSubject | None) -> dict[str, Check]:
    work = WorkLeft()
    if output.use_tool and first:
        return {"": check_with_figures(output.use_tool, first.kind, work)}
    kinds = (first.kind if first else None, *[None] * MAX_CHECKED)
    tool_calls = zip(output.tool_calls[:MAX_CHECKED], kinds, strict=False)
    return {tool_call.id: check_with_figures(tool_call, kind, work) for tool_call, kind in tool_calls}


def check_with_figures(tool_call: UseTool | ToolCall, kind: Kind | None, work: WorkLeft) -> Check:
    """The facts of a tool call, with those that its arguments state about the result."""
    check = check_of(tool_call.name, tool_call.arguments, kind)
    figures = call_figures(check.kind, tool_call.arguments, work)
    return check._replace(figures=figures) if figures else check
