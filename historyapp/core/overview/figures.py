"""The figures of a run: a fold over its live entries. The size of its state does not depend on the run's
length."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from historyapp.core.call_subjects import Kind
from historyapp.core.command_files import FileUse
from historyapp.core.edited_lines import LineCount
from historyapp.core.entries import (
    COMPACTION,
    CONDENSATION,
    DebugLog,
    Entry,
    ModelInput,
    ModelOutput,
    ToolResults,
    marks_compaction,
)
from historyapp.core.overview.cache_misses import CacheMisses
from historyapp.core.overview.files import FileFigures, absolute_path, add_step_number, delete_known, name_of
from historyapp.core.overview.person_waits import NO_WAITS, PersonWaits
from historyapp.core.overview.repeats import RepeatedWork
from historyapp.core.overview.running import add_running, wait_for
from historyapp.core.overview.sizes import ContextSizes
from historyapp.core.overview.step_facts import CallFacts, StepFacts, step_facts_of
from historyapp.core.overview.times import NO_CUTS, Cut, RunTimes, Waited
from historyapp.core.overview.too_few_tokens import TooFewTokens
from historyapp.core.person_inputs import begins_turn, is_interruption
from historyapp.core.text import preview
from historyapp.core.usage import Usage

VERSION = 50
"""The version of the rules and of the state. Stored figures of another version are not read."""
MAX_TOOLS, MAX_FILES, MAX_COMMANDS = 100, 300, 200
"""The first tools, files and commands have figures of their own. Further tools are added up under the empty
name."""
MAX_SLOWEST, MAX_DEAREST, MAX_TURNS = 10, 20, 200


@dataclass(slots=True)
class CallFigures:
    """The figures of calls, by tool and by command."""

    errors: int = 0
    """The number of reported errors."""
    likely_failures: int = 0
    milliseconds: float = 0
    steps: list[int] = field(default_factory=list)

    def add(self, number: int, tool_call: CallFacts) -> None:
        """Adds a tool call of a step."""
        self.errors += tool_call.status == "error"
        self.likely_failures += bool(tool_call.likely_failure)
        self.milliseconds += tool_call.milliseconds
        add_step_number(self.steps, number)


@dataclass(slots=True)
class ToolFigures(CallFigures):
    kind: Kind = "other"
    calls: int = 0
    tokens: float = 0
    """Tokens of results, by our own count."""
    error_steps: list[int] = field(default_factory=list)
    likely_steps: list[int] = field(default_factory=list)


@dataclass(slots=True)
class CommandFigures(CallFigures):
    runs: int = 0
    failures: int = 0
    """The number of runs that failed or likely failed. A search that found nothing did not fail."""
    failed_in: int = 0
    """The step of its last run if that failed; otherwise 0."""

    def add_run(self, number: int, tool_call: CallFacts) -> None:
        """Adds a run in a step."""
        self.add(number, tool_call)
        self.runs += 1
        self.failures += tool_call.is_failure
        self.failed_in = number if tool_call.is_failure else 0


@dataclass(slots=True)
class StepFigure:
    """One of the slowest or most expensive steps."""

    step: int
    score: float
    """The score by which it is ranked: milliseconds, the reported cost in millionths of a dollar, or tokens
    weighted as most providers price them."""
    tool: str
    target: str
    model: str
    usage: Usage
    cost: int = 0
    """Reported by the source, in millionths of a US dollar."""


@dataclass(slots=True)
class FailedStep:
    step: int
    tool: str
    target: str
    line: str
    """The error line, at most 200 characters."""
    rule: str = ""
    """The rule of a likely failure; empty if the failure was reported."""


@dataclass(slots=True)
class RunFigures(RunTimes):
    """All figures of a run."""

    turns: list[int] = field(default_factory=list)
    """The first steps of the first turns."""
    turn_count: int = 0
    is_new_turn: bool = False
    is_interrupted: bool = False
    """Whether a person interrupted the model after the newest step and input."""
    tools: dict[str, ToolFigures] = field(default_factory=dict)
    agent_calls: int = 0
    """The number of successful calls that started a sub-agent."""
    agent_steps: list[int] = field(default_factory=list)
    files: dict[str, FileFigures] = field(default_factory=dict)
    open_file: str = ""
    """The file that an edit without a file name changes, as with SWE-agent."""
    more_files: int = 0
    """The number of reads and edits of further files."""
    unnamed_edits: int = 0
    """The number of successful edits that name no file."""
    unnamed_edit_steps: list[int] = field(default_factory=list)
    further_changes: list[int] = field(default_factory=list)
    """The first steps whose commands may change files that they do not name, such as ``git stash``."""
    commands: dict[str, CommandFigures] = field(default_factory=dict)
    more_commands: int = 0
    running: dict[str, str] = field(default_factory=dict)
    """The newest commands that returned while they still ran, by the ids that calls use to wait for them."""
    too_few: TooFewTokens = field(default_factory=TooFewTokens)
    compactions: int = 0
    sizes: ContextSizes = field(default_factory=ContextSizes)
    cache_misses: CacheMisses = field(default_factory=CacheMisses)
    repeated: RepeatedWork = field(default_factory=RepeatedWork)
    slowest: list[StepFigure] = field(default_factory=list)
    dearest: list[StepFigure] = field(default_factory=list)
    interrupted: list[int] = field(default_factory=list)
    """The first steps in which a person refused or stopped a tool call, or after which a person interrupted
    the model. 0: before step 1."""
    first_failure: FailedStep | None = None
    empty_searches: list[int] = field(default_factory=list)
    """The first steps before that failure whose only reported errors are of searches that found nothing."""
    last_command: FailedStep | None = None
    """The newest command; its ``line`` is empty unless it failed."""
    last_status: str = ""

    @property
    def failed_calls(self) -> int:
        """The number of calls with a reported error. A step can have several."""
        return sum(tool.errors for tool in self.tools.values())

    def add_group(self, group: Sequence[Entry], cuts: Mapping[int, Cut] = NO_CUTS) -> None:
        """Adds the entries before the first output, or an output and the entries after it.

        Args:
            cuts: the positions before which the history was forked or rewound.
        """
        first = group[0]
        if not isinstance(first.body, ModelOutput):
            self._add_entries(group, cuts)
            return
        self.add_cut_time(first, cuts)
        self.add_time(first, "model")
        self.steps += 1
        self.is_interrupted = False
        step = step_facts_of(self.steps, group)
        self.too_few.add(step.number, step.usage, first.tokens)
        self.cache_misses.add(step, is_compacted=self.sizes.is_compacted)
        self.sizes.add(step.number, step.usage.input, step.model)
        self.sizes.add_window(step.model, step.window)
        if self.is_new_turn:
            self.is_new_turn = False
            self.turn_count += 1
            if len(self.turns) < MAX_TURNS:
                self.turns.append(step.number)
        self._add_step(step)
        self.sizes.since_compaction += first.tokens
        self.waits_for = _waits_for(step, group)
        self.add_reported_time(group[1:])
        self._add_entries(group[1:], cuts, step.waits)

    def _add_entries(
        self, entries: Sequence[Entry], cuts: Mapping[int, Cut], waits: PersonWaits = NO_WAITS
    ) -> None:
        """Adds the entries.

        Args:
            waits: see :attr:`StepFacts.waits`.
        """
        for entry in entries:
            body = entry.body
            self.add_cut_time(entry, cuts)
            if isinstance(body, ToolResults):
                self.add_time(entry, "tools" if self.steps else "", waits)
                self.waits_for = "person"
            elif isinstance(body, ModelInput) and body.channel == COMPACTION:
                self._compact()
                self.add_time(entry, "model")
            elif isinstance(body, ModelInput) and begins_turn(body.channel, body.content):
                self.add_time(entry, self.waits_for)
                self.waits_for = "tools" if self.waits_for == "tools" else "person"
                self.is_new_turn, self.is_interrupted = True, False
            elif is_interruption(body):
                self.is_interrupted = True
                add_step_number(self.interrupted, self.steps)
            if isinstance(body, DebugLog):
                if marks_compaction("debug_log", body.category):
                    self._compact(is_partial=body.category.lower() == CONDENSATION)
                continue  # a model never reads it
            self.sizes.since_compaction += entry.tokens

    def _compact(self, *, is_partial: bool = False) -> None:
        self.compactions += not self.sizes.is_compacted
        self.sizes.compact(is_partial=is_partial)

    def _add_step(self, step: StepFacts) -> None:
        is_only_search = step.status == "error" and step.failed_call is None
        self.last_status = "success" if is_only_search else step.status
        for tool_call in step.calls:
            self._name_wait(tool_call)
            self._add_call(step.number, tool_call)
        if is_only_search and self.first_failure is None:
            add_step_number(self.empty_searches, step.number)
        if self.first_failure is None and (failed := step.failed_call):
            self.first_failure = _failed_step(step.number, failed)
        self.repeated.add(step)
        slowest_call = max(step.calls, key=lambda tool_call: tool_call.milliseconds, default=None)
        self.slowest = _ranked(self.slowest, step, step.milliseconds, MAX_SLOWEST, slowest_call)
        usage = step.usage
        written = usage.cache_write * 1.25 + usage.cache_write_hour * 0.75
        weight = usage.uncached + usage.cache_read / 10 + written + usage.output * 5
        first_call = step.calls[0] if step.calls else None
        self.dearest = _ranked(self.dearest, step, step.cost or weight, MAX_DEAREST, first_call)

    def _name_wait(self, tool_call: CallFacts) -> None:
        """Gives a wait for a command the name of the command, if that is known."""
        subject = tool_call.subject
        if tool_call.process:
            command = self.running.get(tool_call.process)
            if command and not tool_call.sends_input:
                tool_call.subject = subject._replace(target=wait_for(command))
        elif tool_call.runs_as and subject.kind == "shell" and subject.target:
            add_running(self.running, tool_call.runs_as, subject.target)

    def _add_call(self, number: int, tool_call: CallFacts) -> None:
        name = tool_call.name if tool_call.name in self.tools or len(self.tools) < MAX_TOOLS else ""
        tool = self.tools.setdefault(name, ToolFigures(kind=tool_call.subject.kind if name else "other"))
        tool.add(number, tool_call)
        tool.calls += 1
        tool.tokens += tool_call.tokens
        if tool_call.status == "error":
            add_step_number(tool.error_steps, number)
        if tool_call.likely_failure:
            add_step_number(tool.likely_steps, number)
        if tool_call.status == "interrupted_by_human":
            add_step_number(self.interrupted, number)
        if tool_call.subject.kind == "agent" and tool_call.status == "success" and not tool_call.resumes:
            self.agent_calls += 1
            add_step_number(self.agent_steps, number)
        if tool_call.subject.kind == "shell":
            self._add_command(number, tool_call)
        self.open_file = tool_call.opened or self.open_file
        self._add_files(number, tool_call)

    def _add_files(self, number: int, tool_call: CallFacts) -> None:
        """Adds the files of a call.

        A failed read or edit, a likely failed one, and a call that a person refused, counts for no file. Of a
        failed command line, the last program counts for no file.
        """
        for used in tool_call.uses:
            self._add_use(number, tool_call, used)
        if tool_call.changes_further_files:
            add_step_number(self.further_changes, number)
        for patch in tool_call.patches:
            if figures := self._file(number, patch.file, "", is_change=True):
                figures.diffs += 1
                figures.diff_added, figures.diff_removed = patch.lines
        if tool_call.has_failed or tool_call.likely_failure:
            return
        files = tool_call.subject.files
        if tool_call.subject.kind == "edit" and not files:
            files = (self.open_file,) if self.open_file else ()
            if not files and not tool_call.patches and tool_call.status == "success":
                self.unnamed_edits += 1
                add_step_number(self.unnamed_edit_steps, number)
        for file in files:
            self._add_file(number, tool_call, preview(file))

    def _add_use(self, number: int, tool_call: CallFacts, used: FileUse) -> None:
        """Adds what a command line does with a file."""
        if used.use == "delete_if_known":
            delete_known(self.files, used.file, tool_call.folder, number)
        elif file := self._file(number, used.file, tool_call.folder, is_change=used.use != "read"):
            if used.use == "read":
                file.add_read(number, self.compactions)
            elif used.use == "write":
                file.commands += 1
                file.deleted_in = 0
            else:
                file.add_deletion(number)

    def _add_command(self, number: int, tool_call: CallFacts) -> None:
        command = tool_call.subject.target
        self.last_command = _failed_step(number, tool_call)
        if command not in self.commands and len(self.commands) >= MAX_COMMANDS:
            self.more_commands += 1
            return
        figures = self.commands.setdefault(command, CommandFigures())
        figures.add_run(number, tool_call)

    def _file(self, number: int, path: str, folder: str, *, is_change: bool) -> FileFigures | None:
        """The figures of a file with one more step, or None if there are too many files."""
        name = name_of(self.files, path, folder)
        if name not in self.files and len(self.files) >= MAX_FILES:
            self.more_files += 1
            return None
        file = self.files.setdefault(name, FileFigures(absolute=absolute_path(path, folder)))
        file.add_step(number, is_change=is_change)
        return file

    def _add_file(self, number: int, tool_call: CallFacts, path: str) -> None:
        is_edit = tool_call.subject.kind == "edit"
        file = self._file(number, path, tool_call.folder, is_change=is_edit)
        if file is None:
            return
        if is_edit:
            file.edits += 1
            # Other calls than patches do not say which lines are in which of several files.
            is_single = len(tool_call.subject.files) < 2
            lines = tool_call.lines if is_single else tool_call.file_lines.get(path, LineCount())
            file.added += lines.added
            file.removed += lines.removed
            file.deleted_in = number if path in tool_call.deleted else 0
            return
        if tool_call.subject.kind == "read":  # another tool may do anything with the file
            file.add_read(number, self.compactions)


def _waits_for(step: StepFacts, group: Sequence[Entry]) -> Waited:
    """What takes the time after an output: a person may write while tools run."""
    if not step.calls or step.waits.only_asks:
        return "person"
    return "tools" if any(isinstance(entry.body, ToolResults) for entry in group) else "unknown"


def _failed_step(number: int, tool_call: CallFacts) -> FailedStep:
    return FailedStep(
        number, tool_call.name, tool_call.subject.target, tool_call.error_line, tool_call.likely_failure
    )


def _ranked(
    ranked: list[StepFigure], step: StepFacts, score: float, limit: int, tool_call: CallFacts | None
) -> list[StepFigure]:
    """The steps with the highest scores, including this one if its score is high enough.

    Args:
        tool_call: the call that names the step.
    """
    if score <= 0 or (len(ranked) == limit and score <= ranked[-1].score):
        return ranked
    target = tool_call.subject.target if tool_call else ""
    figure = StepFigure(
        step=step.number,
        score=score,
        tool=tool_call.name if tool_call else "",
        target=target,
        model=preview(step.model, 100),
        usage=step.usage,
        cost=step.cost,
    )
    return sorted([*ranked, figure], key=lambda figure: (-figure.score, figure.step))[:limit]


_STORED: TypeAdapter[RunFigures] = TypeAdapter(RunFigures)


def dump_figures(figures: RunFigures) -> str:
    """The stored form of figures."""
    return _STORED.dump_json(figures).decode()


def load_figures(stored: str) -> RunFigures:
    """Figures from their stored form, which must have the same version."""
    return _STORED.validate_json(stored)
