"""The facts of one step for the figures: tool calls with their results, times, tokens and usage."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from historyapp.core.call_subjects import (
    SCRIPTS,
    CallSubject,
    call_subject,
    command_line,
    folder_of_call,
    opened_file,
)
from historyapp.core.command_files import (
    MAX_COMMAND,
    MAX_PARSED,
    SUBMIT,
    FileUse,
    PrintedPatch,
    begins_with_diff,
    changes_folder,
    files_used,
    joined,
    printed_patches,
    prints_own_changes,
    unreadable_names,
)
from historyapp.core.conversation import PairedResult, Progress, Status
from historyapp.core.dates import milliseconds_of
from historyapp.core.edited_lines import LineCount, deleted_files, edited_lines, lines_by_file
from historyapp.core.entries import Entry, ModelOutput, ToolResult, ToolResults
from historyapp.core.failures import Check, check_of, error_line, found_nothing, likely_failure
from historyapp.core.file_tools import use_of_file
from historyapp.core.json import dump_json
from historyapp.core.line_diff import WorkLeft
from historyapp.core.overview.person_waits import PersonWaits, person_waits
from historyapp.core.overview.running import process_of, running_as, sends_input
from historyapp.core.recorded_diffs import recorded_diffs
from historyapp.core.results import returned_text
from historyapp.core.text import preview
from historyapp.core.unnamed_changes import changes_further_files
from historyapp.core.usage import Usage, cache_lifetime_of, cost_of, usage_of, window_in

_NO_LINES = LineCount()
_RELATIVE = re.compile(r"[\w.][\w./ -]{0,500}")
"""A folder that is named from an unknown one, without variables."""
_MODEL = 200
"""Characters of a model's name that are kept. Any metadata can name one."""
_MIN_COMMAND = 1_000
"""The characters for which a command line counts at least: 100 short lines with 20 files each take 0.1 s,
because a deletion is compared with all files of the run."""


@dataclass(slots=True)
class CallFacts:
    """One tool call and its result."""

    id: str
    """Empty for an action without provider calls."""
    name: str
    subject: CallSubject
    lines: LineCount
    """Of an edit: as the agent recorded them with the result, otherwise by its arguments."""
    digest: str
    """Equal for calls of the same tool with the same arguments."""
    check: Check
    """The facts by which its result is checked for a failure that was not reported."""
    command: str = ""
    """The command line of a call of a shell; empty after the first :data:`MAX_PARSED` of a step."""
    folder: str = ""
    """The folder in which the command runs; empty if unknown, or if the line enters another one."""
    file_lines: Mapping[str, LineCount] = field(default_factory=dict)
    """The lines of each file, of a patch that changes several files."""
    deleted: frozenset[str] = frozenset()
    """The files that an edit deletes or moves."""
    opened: str = ""
    """The file that it opens for later edits, see :func:`historyapp.core.call_subjects.opened_file`."""
    status: str = ""
    """The status of its result; empty without a result."""
    likely_failure: str = ""
    """The rule that found a likely failure in the result, or empty."""
    found_nothing: bool = False
    """Whether a reported error says only that a search found nothing."""
    error_line: str = ""
    """The line of a reported error or of a likely failure."""
    result_digest: str = ""
    process: str = ""
    """The id of the running command that it names, see :mod:`historyapp.core.overview.running`."""
    sends_input: bool = False
    """Whether it writes to that command; otherwise it waits."""
    resumes: bool = False
    """Whether it continues an earlier sub-agent, as Claude Code's ``resume`` does."""
    runs_as: str = ""
    """The id under which its command still runs."""
    patches: Sequence[PrintedPatch] = ()
    """The files of a diff that it printed, if the changes are its own."""
    tokens: float = 0
    """Tokens of its result, by our own count. Results of one entry share its tokens by the length of their
    texts."""
    milliseconds: float = 0
    """From the previous call or result to its result, without a wait for a person. Results of one entry share
    the time."""

    @property
    def has_failed(self) -> bool:
        """Whether it reported an error, or a person refused it."""
        return self.status in ("error", "interrupted_by_human")

    @property
    def is_failure(self) -> bool:
        """Whether it failed or likely failed. A search that found nothing did not fail."""
        return bool(self.likely_failure) or (self.status == "error" and not self.found_nothing)

    @property
    def uses(self) -> tuple[FileUse, ...]:
        """What its command line does with files; nothing if a person refused it.

        A file that ``cat``, ``rm`` or another of these programs could not find was not read or deleted.
        """
        if not self.command or self.status == "interrupted_by_human":
            return ()
        uses = files_used(self.command, has_failed=self.has_failed)
        missed = unreadable_names(self.error_line)
        found = [used for used in uses if used.use == "write" or used.file not in missed]
        if _RELATIVE.fullmatch(self.folder):
            found = [used._replace(file=joined(self.folder, used.file)) for used in found]
        return tuple(found)

    @property
    def changes_further_files(self) -> bool:
        """Whether its command line may change files that it does not name. Not if a person refused it."""
        if self.status == "interrupted_by_human":
            return False
        return changes_further_files(self.command, has_failed=self.has_failed)


class StepFacts(NamedTuple):
    """One step."""

    number: int
    at: int
    """When the output was recorded, in milliseconds since 1970."""
    status: Status
    model: str
    """Empty if the entry does not name a model."""
    usage: Usage
    cost: int
    """Reported by the source, in millionths of a US dollar."""
    window: int
    """As recorded with the usage, in tokens; 0 if it is not."""
    cache_lifetime: int
    """See :func:`historyapp.core.usage.cache_lifetime_of`."""
    tokens: int
    """Tokens of its entries, by our own count."""
    milliseconds: int
    """From the output to the last result, without waits for a person."""
    waits: PersonWaits
    calls: list[CallFacts]

    @property
    def failed_call(self) -> CallFacts | None:
        """The first call with a reported error, otherwise the first with a likely failure, or None. A search
        that found nothing did not fail."""
        errors = (tool_call for tool_call in self.calls if tool_call.status == "error")
        reported = (tool_call for tool_call in errors if not tool_call.found_nothing)
        likely = (tool_call for tool_call in self.calls if tool_call.likely_failure)
        return next(reported, None) or next(likely, None)


def step_facts_of(number: int, entries: Sequence[Entry]) -> StepFacts:
    """The facts of a step.

    Args:
        entries: its output and the live entries after it, up to the next output.
    """
    first = entries[0]
    output = first.body
    assert isinstance(output, ModelOutput)
    calls = _calls(output)
    progress, previous = Progress.begin(output), milliseconds_of(first.created_at)
    start, end, waits = previous, previous, person_waits(entries)
    for entry in entries[1:]:
        if isinstance(entry.body, ToolResults):
            progress, answered = progress.add_results(entry.body.results)
            moment = milliseconds_of(entry.created_at)
            elapsed = max(0, moment - previous) - waits.before(entry.position)
            _add_results(calls, answered, entry.tokens, elapsed)
            for id, diff in recorded_diffs(entry.metadata).items():
                if id in calls and calls[id].subject.kind == "edit":
                    calls[id].lines = diff.lines
            previous = end = max(previous, moment)
    model = first.metadata.get("model")
    model = model if isinstance(model, str) else ""
    return StepFacts(
        number=number,
        at=start,
        status=progress.status,
        model=model if len(model) <= _MODEL else preview(model, _MODEL),
        usage=usage_of(first.metadata),
        cost=cost_of(first.metadata),
        window=window_in(first.metadata),
        cache_lifetime=cache_lifetime_of(first.metadata),
        tokens=sum(entry.tokens for entry in entries if entry.body.in_step),
        milliseconds=end - start - waits.total,
        waits=waits,
        calls=list(calls.values()),
    )


def _calls(output: ModelOutput) -> dict[str, CallFacts]:
    """The calls of an output by their ids; an action without provider calls has the empty id."""
    work = WorkLeft()
    if output.use_tool and not output.tool_calls:
        return {"": _in_its_folder(_call("", output.use_tool.name, output.use_tool.arguments, work))}
    calls, read = dict[str, CallFacts](), 0
    for tool_call in output.tool_calls:
        facts = _call(tool_call.id, tool_call.name, tool_call.arguments, work)
        if facts.command:
            read += max(_MIN_COMMAND, min(len(facts.command), MAX_COMMAND))
        if read > MAX_PARSED:
            facts.command = ""
        calls[tool_call.id] = _in_its_folder(facts)
    return calls


def _call(id: str, name: str, arguments: Any, work: WorkLeft) -> CallFacts:
    subject = call_subject(name, arguments)
    lines = edited_lines(arguments, work) if subject.kind == "edit" else _NO_LINES
    digest = digest_of(f"{name}\n{dump_json(arguments)}")
    command = command_line(arguments) if subject.kind == "shell" else ""
    command = "" if command.startswith(SCRIPTS) else command
    has_files = subject.kind == "edit" and len(subject.files) > 1
    return CallFacts(
        id,
        preview(name, 100),
        subject,
        lines,
        digest,
        check_of(name, arguments, subject.kind),
        command=command,
        folder=folder_of_call(arguments),
        file_lines=lines_by_file(arguments) if has_files else {},
        deleted=_deleted_files(name, arguments, subject) if subject.kind == "edit" else frozenset(),
        opened=opened_file(name, arguments),
        process=process_of(arguments),
        sends_input=sends_input(arguments),
        resumes=isinstance(arguments, Mapping) and bool(arguments.get("resume")),
    )


def _in_its_folder(facts: CallFacts) -> CallFacts:
    """The facts without the folder if the command line enters another one."""
    if facts.folder and changes_folder(facts.command):
        facts.folder = ""
    return facts


def _deleted_files(name: str, arguments: Any, subject: CallSubject) -> frozenset[str]:
    """The files that an edit deletes or moves."""
    deleted = deleted_files(arguments)
    return frozenset(subject.files) if not deleted and use_of_file(name) == "delete" else deleted


def digest_of(text: str) -> str:
    """A short digest: two of 100,000 different texts are equal with a chance of one in 3,000 million."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _add_results(
    calls: dict[str, CallFacts], answered: Sequence[PairedResult], tokens: int, elapsed: int
) -> None:
    """Adds to each answered call its result, and its share of the entry's tokens and of the time."""
    found = [(result, [calls[id] for id in ids if id in calls]) for result, ids in answered]
    texts = [
        (result, answered_calls, returned_text(result)) for result, answered_calls in found if answered_calls
    ]
    characters = sum(len(text) + 1 for _, _, text in texts)
    count = sum(len(answered_calls) for _, answered_calls, _ in texts)
    for result, answered_calls, text in texts:
        _add_result(answered_calls, result, text)
        share = tokens * (len(text) + 1) / len(answered_calls) / characters
        for tool_call in answered_calls:
            tool_call.tokens += share
            tool_call.milliseconds += elapsed / count


def _add_result(answered_calls: Sequence[CallFacts], result: ToolResult, text: str) -> None:
    """Adds a result to the calls that it answers. It is read once, as a result of the first one."""
    check = answered_calls[0].check
    finding = likely_failure(result, check, text)
    nothing = found_nothing(result, check, text)
    is_failure = result.status == "error" and not nothing
    reported_line = error_line(result, text) if is_failure else ""
    digest = digest_of(text)
    for tool_call in answered_calls:
        tool_call.status = result.status
        tool_call.likely_failure = finding.rule if finding else ""
        tool_call.found_nothing = nothing
        tool_call.error_line = finding.line if finding else reported_line
        tool_call.result_digest = digest
        tool_call.runs_as = running_as(text)
    if begins_with_diff(text):
        printing = (
            each for each in answered_calls if each.name == SUBMIT or prints_own_changes(each.command)
        )
        if (printed_by := next(printing, None)) is not None:
            printed_by.patches = printed_patches(text)
