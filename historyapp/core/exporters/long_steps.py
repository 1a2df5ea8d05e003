"""Limits the memory that one step of an export, or of the figures of a run, takes.

Some formats need a step as a whole: its results are written in the order of its tool calls, and inputs that
came during the step after them. A step may have any number of entries, so the longest ones are shortened.
"""

from collections.abc import Iterable, Iterator

from historyapp.core.entries import (
    Body,
    DebugLog,
    Entry,
    MemoryNotebook,
    ModelInput,
    ModelOutput,
    Review,
    SystemInstruction,
    ToolResult,
    ToolResults,
)

MAX_STEP = 1 << 26
"""Bytes of a step that are written completely. No provider accepts a request of that length."""


def shortened(sized: Iterable[tuple[Entry, int]], *, logs: bool = False) -> Iterator[Entry]:
    """Live entries, oldest first. In a step, entries after the first :data:`MAX_STEP` bytes lose their texts.

    Args:
        sized: entries with the bytes that each takes in memory.
        logs: whether to keep log entries, which belong to no step and which no model reads.
    """
    output: ModelOutput | None = None
    size = 0
    for entry, length in sized:
        if isinstance(entry.body, DebugLog) and not logs:
            continue
        if isinstance(entry.body, ModelOutput):
            output, size = entry.body, 0
        elif output is not None:
            size += length
            if size > MAX_STEP:
                yield entry._replace(body=_without_texts(entry.body, length, output), metadata={})
                continue
        yield entry


def _without_texts(body: Body, length: int, output: ModelOutput) -> Body:
    left_out = (
        f"[{length:,} bytes are left out here, because the step has more than {MAX_STEP:,}. "
        "The export as Playhead JSONL contains them.]"
    )
    match body:
        case ToolResults(results=results, overall=overall):
            kept = tuple([_result(result, left_out) for result in _answers(results, output)])
            return ToolResults(results=kept, overall=left_out if overall else None)
        case Review(score=score, passed=passed):
            return Review(analysis=left_out, score=score, passed=passed)
        case DebugLog(category=category):
            return DebugLog(category=category[:100], message=left_out)
        case SystemInstruction():
            return SystemInstruction(text=left_out)
        case MemoryNotebook():
            return MemoryNotebook(content=left_out)
        case ModelInput(channel=channel):
            return ModelInput(channel=channel[:100], content=left_out)
        case _:
            return ModelInput(channel=body.heading[:100], content=left_out)


def _answers(results: tuple[ToolResult, ...], output: ModelOutput) -> list[ToolResult]:
    """The results that may answer a call of the output, or the first result if there are none."""
    ids = {None, *(tool_call.id for tool_call in output.tool_calls)}
    answers = [result for result in results if result.tool_call_id in ids]
    return answers[: len(ids)] or [results[0]]


def _result(result: ToolResult, text: str) -> ToolResult:
    field = {"success": "outputs", "interrupted_by_human": "feedback"}.get(result.status, "reason")
    without_texts = {"outputs": None, "reason": None, "error": None, "feedback": None}
    return result.model_copy(update={**without_texts, field: text})
