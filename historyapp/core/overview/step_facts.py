"""The facts of one step for the figures: tool calls with their results, times, tokens and usage."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple

from historyapp.core.call_subjects import CallSubject, call_subject, opened_file
from historyapp.core.conversation import PairedResult, Progress, Status
from historyapp.core.edited_lines import LineCount, edited_lines
from historyapp.core.entries import Entry, ModelOutput, ToolResult, ToolResults
from historyapp.core.failures import Check, check_of, error_line, likely_failure
from historyapp.core.json import dump_json
from historyapp.core.results import returned_text
from historyapp.core.text import preview
from historyapp.core.usage import Usage, usage_of

_NO_LINES = LineCount()


@dataclass(slots=True)
class CallFacts:
    """One tool call and its result."""

    id: str
    """Empty for an action without provider calls."""
    name: str
    subject: CallSubject
    lines: LineCount
    digest: str
    """Equal for calls of the same tool with the same arguments."""
    check: Check
    """How its result is read for a failure that nobody reported."""
    opened: str = ""
    """The file that it opens for later edits, see :func:`historyapp.core.call_subjects.opened_file`."""
    status: str = ""
    """Of its result; empty without one."""
    likely_failure: str = ""
    """The rule by which a result that was reported as a success looks like a failure, or empty."""
    error_line: str = ""
    """The line that says what failed, reported or likely."""
    result_digest: str = ""
    tokens: float = 0
    """Of its result, by our own count. A result's entry is divided by the length of its texts."""
    milliseconds: float = 0
    """From the call or the result before to its result. Results of one entry share the time."""


class StepFacts(NamedTuple):
    """One step."""

    number: int
    status: Status
    model: str
    """Empty if the entry does not name it."""
    usage: Usage
    tokens: int
    """Of its entries, by our own count."""
    milliseconds: int
    """From the output to the last result."""
    calls: list[CallFacts]

    @property
    def failed_call(self) -> CallFacts | None:
        """The first call that failed, reported or else likely; None if none did."""
        reported = (call for call in self.calls if call.status == "error")
        likely = (call for call in self.calls if call.likely_failure)
        return next(reported, None) or next(likely, None)


def milliseconds_of(moment: datetime) -> int:
    """A time as milliseconds since 1970."""
    return int(moment.timestamp() * 1000)


def facts_of(number: int, run: Sequence[Entry]) -> StepFacts:
    """The facts of a step.

    Args:
        run: its output and the live entries after it, up to the next output.
    """
    first = run[0]
    output = first.body
    assert isinstance(output, ModelOutput)
    calls = _calls(output)
    progress, before = Progress.begin(output), milliseconds_of(first.created_at)
    start, end = before, before
    for entry in run[1:]:
        if isinstance(entry.body, ToolResults):
            progress, answered = progress.take(entry.body.results)
            now = milliseconds_of(entry.created_at)
            _share(calls, answered, entry.tokens, max(0, now - before))
            before = end = max(before, now)
    model = first.metadata.get("model")
    return StepFacts(
        number=number,
        status=progress.status,
        model=model if isinstance(model, str) else "",
        usage=usage_of(first.metadata),
        tokens=sum(entry.tokens for entry in run if entry.body.in_step),
        milliseconds=end - start,
        calls=list(calls.values()),
    )


def _calls(output: ModelOutput) -> dict[str, CallFacts]:
    """The calls of an output by their ids; an action without provider calls has an empty one."""
    if output.use_tool and not output.tool_calls:
        return {"": _call("", output.use_tool.name, output.use_tool.arguments)}
    return {call.id: _call(call.id, call.name, call.arguments) for call in output.tool_calls}


def _call(id: str, name: str, arguments: Any) -> CallFacts:
    subject = call_subject(name, arguments)
    lines = edited_lines(arguments) if subject.kind == "edit" else _NO_LINES
    digest = digest_of(f"{name}\n{dump_json(arguments)}")
    check, opened = check_of(name, arguments, subject.kind), opened_file(name, arguments)
    return CallFacts(id, preview(name, 100), subject, lines, digest, check, opened)


def digest_of(text: str) -> str:
    """A short digest: two of 100,000 different texts are equal with a chance of one in 3,000 million."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _share(calls: dict[str, CallFacts], answered: Sequence[PairedResult], tokens: int, passed: int) -> None:
    """Gives each answered call its result, and its share of the entry's tokens and of the time."""
    answers = list(_answers(calls, answered))
    characters = sum(size for _, _, _, size in answers)
    for call, result, text, size in answers:
        call.status = result.status
        likely = likely_failure(result, call.check)
        call.likely_failure = likely.rule if likely else ""
        reported_line = error_line(result) if result.status == "error" else ""
        call.error_line = likely.line if likely else reported_line
        call.result_digest = digest_of(text)
        call.tokens += tokens * size / characters
        call.milliseconds += passed / len(answers)


def _answers(
    calls: dict[str, CallFacts], answered: Sequence[PairedResult]
) -> Iterator[tuple[CallFacts, ToolResult, str, float]]:
    """Each answered call with its result, the result's text, and the characters that are its share."""
    for result, ids in answered:
        known = [calls[id] for id in ids if id in calls]
        if known:
            text = returned_text(result)
            for call in known:
                yield call, result, text, (len(text) + 1) / len(known)
