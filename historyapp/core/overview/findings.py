"""How a run ended, and the sentences of "Worth a look"."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from historyapp.core.overview.figures import RunFigures
from historyapp.core.overview.repeats import Repeat, RepeatRule
from historyapp.core.text import preview

EndingKind = Literal[
    "empty", "running", "no_result", "interrupted", "error", "failed_command", "answered", "unanswered",
    "submitted", "gave_up", "stopped",
]  # fmt: skip
MAX_FINDINGS = 5
LONG_WAIT, LONG_STEP = 60_000, 60_000
"""Milliseconds from which a finding reports a wait for a person, or a step."""
_TEXTS: dict[EndingKind, str] = {
    "empty": "nothing recorded yet",
    "running": "running",
    "no_result": "ended with a tool call that has no result",
    "interrupted": "interrupted by a person",
    "error": "ended with an error",
    "failed_command": "answered after a failed command",
    "answered": "ended with an answer",
    "submitted": "submitted",
    "gave_up": "gave up",
    "stopped": "stopped",
}
_INPUT_WITHOUT_RESULT = "ended with an input after a call without a result"
FAILING_COMMAND = "failing_command"
_MAX_COMMAND = 60
"""The maximum number of characters of a command in a text."""
_MAX_EXIT_STATUS = 60
"""The maximum number of characters of an exit status in a text."""
_MAX_SEARCHES = 3
"""The maximum number of steps with a search that found nothing in a text."""
_EXITS = (
    "early_exit", "exit_api", "exit_command", "exit_command_timeout", "exit_context", "exit_cost",
    "exit_environment_error", "exit_error", "exit_format", "exit_total_execution_time",
)  # fmt: skip
"""Exit statuses of SWE-agent without a submission."""
_BY_STATUS: dict[str, EndingKind] = {
    "in_flight": "no_result",
    "abandoned": "no_result",
    "interrupted_by_human": "interrupted",
    "error": "error",
}


SUBAGENT_FAILURES = "subagent_failures"


class SubagentFailures(NamedTuple):
    """The failures of a run's sub-agents."""

    subagents: int
    failing: int
    """Sub-agents with at least one failure of their own."""
    errors: int
    """Steps with a reported error."""
    likely: int
    """Steps that likely failed."""
    steps: tuple[int, ...]
    """The steps of the run that started failing sub-agents, as far as they are known."""


class Ending(NamedTuple):
    """How a run ended, or that it still runs."""

    kind: EndingKind
    text: str
    steps: tuple[int, ...]
    """The steps to look at."""

    @property
    def is_good(self) -> bool:
        return self.kind in ("answered", "submitted")

    @property
    def is_bad(self) -> bool:
        return self.kind in ("no_result", "error", "failed_command", "interrupted", "gave_up", "stopped")


class Finding(NamedTuple):
    """A sentence about some steps, with links to them."""

    kind: str
    text: str
    steps: tuple[int, ...]
    milliseconds: int = 0
    """The duration, if the finding is about time."""

    @property
    def is_of_subagents(self) -> bool:
        return self.kind == SUBAGENT_FAILURES

    @property
    def is_of_failures(self) -> bool:
        return self.kind in ("first_failure", "error", "failed_command", FAILING_COMMAND, "error_streak")


def ending_of(figures: RunFigures, *, is_live: bool, exit_status: object = None) -> Ending:
    """How the run ended.

    Args:
        is_live: whether the agent may continue.
        exit_status: what the transcript says about the end, such as ``Submitted`` or ``exit_forfeit``.
    """
    newest = figures.steps
    if not newest:
        return Ending("empty", _TEXTS["empty"], ())
    has_answered = figures.last_status in ("answered", "interrupted_by_human") and not figures.is_new_turn
    is_interrupted = figures.is_interrupted and not has_answered
    if is_live and not (has_answered or is_interrupted):
        return Ending("running", _TEXTS["running"], (newest,))
    if stated := stated_ending(exit_status):
        return Ending(*stated, (newest,))
    if is_interrupted:
        return Ending("interrupted", _TEXTS["interrupted"], (newest,))
    if unanswered := unanswered_text(figures.last_status, has_input=figures.is_new_turn):
        return Ending("unanswered", unanswered, (newest,))
    command = figures.last_command
    if figures.last_status == "answered":
        if command and command.line:
            text = (
                "answered after failed tests" if command.rule == "failed_tests" else _TEXTS["failed_command"]
            )
            return Ending("failed_command", text, (command.step, newest))
        return Ending("answered", _TEXTS["answered"], (newest,))
    kind = _BY_STATUS[figures.last_status]
    text = _INPUT_WITHOUT_RESULT if kind == "no_result" and figures.is_new_turn else _TEXTS[kind]
    return Ending(kind, text, (newest,))


def unanswered_text(last_status: str, *, has_input: bool) -> str:
    """What the agent did not answer at the end of a run that it has left; empty if it answered.

    Args:
        last_status: of the newest step.
        has_input: whether a person's input follows the newest step.
    """
    if has_input and last_status not in ("in_flight", "abandoned"):
        return "ended with an input that the agent did not answer"
    return "ended with a result that the agent did not answer" if last_status == "success" else ""


def stated_ending(exit_status: object) -> tuple[EndingKind, str] | None:
    """The end by an exit status of SWE-agent or mini-swe-agent; None if it is not one of theirs.

    SWE-agent: ``submitted``, ``submitted (exit_cost)``, ``exit_forfeit``, ``exit_context``, ``early_exit``.
    mini-swe-agent: ``Submitted``, otherwise the name of an exception, such as ``LimitsExceeded``.
    """
    if not isinstance(exit_status, str) or len(exit_status) > _MAX_EXIT_STATUS:
        return None
    word = exit_status.lower()
    if word in ("submitted", "exit_forfeit"):
        kind: EndingKind = "submitted" if word == "submitted" else "gave_up"
        return kind, _TEXTS[kind]
    is_limit = word in _EXITS or word.startswith("submitted (exit_")
    is_exception = exit_status.isidentifier() and exit_status.endswith(("Exceeded", "Error"))
    if is_limit or is_exception:
        return "stopped", f"{_TEXTS['stopped']}: {exit_status}"
    return None


def choose_findings(
    figures: RunFigures, ending: Ending, subagents: SubagentFailures | None = None
) -> list[Finding]:
    """At most five findings, the most urgent first."""
    return list(_findings(figures, ending, subagents))[:MAX_FINDINGS]


def _findings(figures: RunFigures, ending: Ending, subagents: SubagentFailures | None) -> Iterator[Finding]:
    found: list[Finding] = []
    if failure := figures.first_failure:
        likely = ", likely" if failure.rule else ""
        text = f"First failure{likely}: {failure.tool}{_before_it(figures.empty_searches)}"
        found.append(Finding("first_failure", text, (failure.step,)))
    interrupted = tuple(dict.fromkeys(max(step, 1) for step in figures.interrupted)) if figures.steps else ()
    if interrupted and (ending.kind != "interrupted" or interrupted != ending.steps):
        where = "in or after" if figures.interrupted[0] else "before, in or after"
        which = "this step" if len(interrupted) == 1 else "these steps"
        found.append(Finding("interrupted_steps", f"Interrupted by a person {where} {which}", interrupted))
    yield from sorted(found, key=lambda finding: finding.steps[0])
    if subagents and subagents.failing:
        yield _subagent_finding(subagents)
    if ending.is_bad or ending.kind == "unanswered":
        yield Finding(ending.kind, ending.text.capitalize(), ending.steps)
    yield from _failing_command(figures)
    repeats = figures.repeated.findings()
    yield from _repeats(repeats, "error_streak", "{} steps in a row failed")
    yield from _repeats(repeats, "alternating_calls", "Two tool calls alternated for {} steps")
    yield from _repeats(repeats, "same_call_same_result", "Same tool call, same result, {} times: {}")
    read_again = sorted({step for file in figures.files.values() for step in file.again})
    file_count = sum(bool(file.again) for file in figures.files.values())
    if file_count:
        text = f"{file_count} file{'s' * (file_count != 1)} read again after a compaction"
        yield Finding("read_again", text, tuple(read_again[:8]))
    if losses := figures.sizes.losses:
        steps = tuple(loss.step for loss in losses[:8])
        yield Finding("context_loss", "The context shrank without a compaction", steps)
    if figures.is_dated and figures.waits and figures.waits[0][0] >= LONG_WAIT:
        waited, step = figures.waits[0]
        yield Finding("longest_pause", "Longest wait for a person's input", (step,), waited)
    if figures.is_dated and figures.approvals and figures.approvals[0][0] >= LONG_WAIT:
        waited, step = figures.approvals[0]
        yield Finding("longest_approval", "Longest wait for an approval", (step,), waited)
    if figures.is_dated and figures.slowest and figures.slowest[0].score >= LONG_STEP:
        slowest = figures.slowest[0]
        text = f"Slowest step: {slowest.tool}"
        yield Finding("slowest_step", text, (slowest.step,), round(slowest.score))


def _before_it(steps: list[int]) -> str:
    """Names the earlier reported errors that are no failures: the list of errors and the key e have them."""
    if not steps:
        return ""
    numbers = ", ".join(f"{step:,}" for step in steps[:_MAX_SEARCHES]) + " …" * (len(steps) > _MAX_SEARCHES)
    what = "a search" if len(steps) == 1 else "searches"
    return f" (before it, step{'s' * (len(steps) > 1)} {numbers}: {what} that found nothing)"


def _failing_command(figures: RunFigures) -> Iterator[Finding]:
    """The command with the most failures, of those that failed at least twice, the last time too."""
    commands = figures.commands.items()
    failing = [(name, runs) for name, runs in commands if name and runs.failed_in and runs.failures > 1]
    if failing:
        name, command = max(failing, key=lambda item: (item[1].failures, item[1].failed_in))
        all_runs = "both runs" if command.runs == 2 else f"all {command.runs:,} runs"
        which = all_runs if command.failures == command.runs else "its last run"
        text = f"{preview(name, _MAX_COMMAND)} failed in {which}"
        yield Finding(FAILING_COMMAND, text, (command.failed_in,))


def _subagent_finding(found: SubagentFailures) -> Finding:
    """Says which share of the sub-agents had failures, and how many steps failed."""
    counts = []
    if found.errors:
        counts.append(f"{found.errors:,} error{'s' * (found.errors != 1)}")
    if found.likely:
        counts.append(f"{found.likely:,} likely failure{'s' * (found.likely != 1)}")
    is_one = found.subagents == 1
    of_all = "The sub-agent" if is_one else f"{found.failing:,} of {found.subagents:,} sub-agents"
    return Finding(SUBAGENT_FAILURES, f"{of_all} had {', '.join(counts)}", found.steps)


def _repeats(repeats: list[Repeat], rule: RepeatRule, text: str) -> Iterator[Finding]:
    """The longest finding of a rule."""
    for repeat in repeats:
        if repeat.rule == rule:
            yield Finding(rule, text.format(repeat.count, repeat.tool), tuple(repeat.steps))
            return
