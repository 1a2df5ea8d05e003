"""The named rules that find repeated work."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from historyapp.core.overview.step_facts import CallFacts, StepFacts

RepeatRule = Literal["same_call_same_result", "alternating_calls", "error_streak"]
RULES: tuple[RepeatRule, ...] = get_args(RepeatRule)
"""``same_call_same_result``: a tool was called again with the same arguments and gave the same result.
``alternating_calls``: two calls alternated at least three times. ``error_streak``: at least three steps with
tool calls in a row failed, reported or likely."""
MIN_ALTERNATING, MIN_ERRORS = 6, 3
"""The minimum number of steps of an ``alternating_calls`` and of an ``error_streak``."""
MAX_STEPS, MAX_FINDINGS = 8, 20
MAX_TOOLS = 4
"""The maximum number of tools of an ``error_streak`` to remember."""
MAX_SEEN = 300
"""The maximum number of tool calls to remember. Calls that were repeated least are removed first."""


@dataclass(slots=True)
class Repeat:
    """A finding of a rule."""

    rule: RepeatRule
    count: int
    """The number of equal tool calls, or of steps in a row."""
    steps: list[int]
    """The first steps, at most :data:`MAX_STEPS`."""
    last: int
    tool: str
    """The tool of the first call."""
    target: str
    """The target of the first call; empty for an ``error_streak`` whose calls have different targets."""
    tools: list[str] = field(default_factory=list)
    """The first different tools that failed in an ``error_streak``, at most :data:`MAX_TOOLS`."""


@dataclass(slots=True)
class RepeatedWork:
    """The state of the rules, and their findings."""

    seen: dict[str, Repeat] = field(default_factory=dict)
    """By the digests of tool call and result."""
    recent: list[tuple[int, str]] = field(default_factory=list)
    """The newest steps with tool calls: number, and digest of the calls."""
    alternating: list[Repeat] = field(default_factory=list)
    streak: Repeat | None = None
    """The streak at the newest step. It may be too short for a finding."""
    streaks: list[Repeat] = field(default_factory=list)
    """The longest streaks that have ended."""

    def add(self, step: StepFacts) -> None:
        if not step.calls:
            return
        for tool_call in step.calls:
            if tool_call.result_digest:
                self._add_call(step.number, tool_call)
        self._add_calls(step)
        self._add_outcome(step)

    def findings(self) -> list[Repeat]:
        """All findings, the longest of each rule first."""
        same = [repeat for repeat in self.seen.values() if repeat.count > 1]
        streaks = [*self.streaks, self.streak] if self.streak else self.streaks
        long_streaks = [streak for streak in streaks if streak.count >= MIN_ERRORS]
        findings: list[Repeat] = []
        for repeats in (same, self.alternating, long_streaks):
            findings += sorted(repeats, key=lambda repeat: (-repeat.count, repeat.steps))[:MAX_FINDINGS]
        return findings

    def _add_call(self, number: int, tool_call: CallFacts) -> None:
        key = tool_call.digest + tool_call.result_digest
        known = self.seen.get(key)
        if known is None:
            if len(self.seen) >= MAX_SEEN:
                del self.seen[min(self.seen, key=lambda key: self.seen[key].count)]
            self.seen[key] = _repeat("same_call_same_result", [number], tool_call)
            return
        known.count += 1
        known.last = number
        if len(known.steps) < MAX_STEPS and known.steps[-1] != number:
            known.steps.append(number)

    def _add_calls(self, step: StepFacts) -> None:
        digest = "".join([tool_call.digest for tool_call in step.calls[:20]])
        self.recent = [*self.recent[1 - MIN_ALTERNATING :], (step.number, digest)]
        digests = [digest for _, digest in self.recent]
        is_alternating = (
            len(digests) == MIN_ALTERNATING and digests[2:] == digests[:-2] and digests[0] != digests[1]
        )
        if not is_alternating:
            return
        newest = self.alternating[-1] if self.alternating else None
        if newest and newest.last == self.recent[-2][0]:
            newest.count += 1
            newest.last = step.number
            newest.steps = [*newest.steps, step.number][:MAX_STEPS]
        elif len(self.alternating) < MAX_FINDINGS:
            steps = [number for number, _ in self.recent]
            self.alternating.append(_repeat("alternating_calls", steps, step.calls[0]))

    def _add_outcome(self, step: StepFacts) -> None:
        if failed := step.failed_call:
            if self.streak is None:
                self.streak = _repeat("error_streak", [step.number], failed)
                self.streak.tools = [failed.name]
                return
            self.streak.count += 1
            self.streak.last = step.number
            self.streak.steps = [*self.streak.steps, step.number][:MAX_STEPS]
            if failed.name not in self.streak.tools:
                self.streak.tools = [*self.streak.tools, failed.name][:MAX_TOOLS]
            if failed.subject.target != self.streak.target:
                self.streak.target = ""
        elif self.streak is not None:
            if self.streak.count >= MIN_ERRORS:
                longest = sorted([*self.streaks, self.streak], key=lambda repeat: -repeat.count)
                self.streaks = longest[:MAX_FINDINGS]
            self.streak = None


def _repeat(rule: RepeatRule, steps: list[int], tool_call: CallFacts) -> Repeat:
    return Repeat(rule, len(steps), steps, steps[-1], tool_call.name, tool_call.subject.target)
