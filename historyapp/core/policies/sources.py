"""Finds the lines in which the agent read the names that it used later.

An excerpt keeps the lines with the most names of a step, chosen before anything is known about later steps.
If the agent uses a name whose line is not among them, that line explains what the agent works on. The same
applies to a name from a part of an input that was clipped. So ``notes`` chooses from these lines, too.
"""

from collections.abc import Iterator, Sequence, Set
from operator import itemgetter
from typing import NamedTuple

from historyapp.core.content import plain_text
from historyapp.core.conversation import InputMessage
from historyapp.core.excerpts import TextLines, read_text
from historyapp.core.policies.base import OutlinedPast, StepOutline
from historyapp.core.process_memory import cached_while_busy

PERIOD = 48
"""Steps. The limits apply to the names that each period uses first, so that a new step changes no earlier
choice."""
MAX_PERIODS = 8
"""The maximum number of periods in which the used names are looked up. The others are the oldest ones."""
MAX_STEPS = 16
"""The maximum number of steps in whose results the names of a period are looked for."""
MAX_NAMES = 128
"""The maximum number of names of a period that are looked for."""
MAX_TOKENS = 32_768
"""Results with more tokens are not read."""
MAX_INPUTS = 32
"""The maximum number of inputs in which names are looked for."""
MAX_INPUT_NAMES = 1024
"""The maximum number of names that are looked for in inputs: those used first."""
_SHORT = 20_000
"""Characters of an input."""
_AFTER_EXCERPT = 1000
"""The lines of an excerpt have smaller places."""
_INPUT, _MAX_PLACE = -(1 << 60), 1 << 20
"""Lines of inputs come first, in the order of their positions, which are below 1 << 40."""


class LineOfUsedName(NamedTuple):
    """A line in which the agent read a name, and the step that used it first. Steps are indexes."""

    used_at: int
    name: str
    at: int
    """The step that read the line; for an input, the first step after it."""
    place: int
    """The order among the lines of this step. Below 0 for an input."""
    text: str
    tokens: int
    names: tuple[str, ...]
    """The identifiers of the line."""


def find_sources(
    past: OutlinedPast, steps: Sequence[StepOutline], hidden: Sequence[InputMessage]
) -> list[LineOfUsedName]:
    """The lines with the names that steps wrote into their arguments, in the order of their first use.

    Args:
        hidden: the inputs that the context lacks, or has clipped, oldest first.
    """
    uses = _first_uses(steps)
    reads = _first_reads(steps, uses)
    sources = {source.name: source for source in _from_inputs(steps, hidden, uses, reads)}
    wanted = []
    for name, used_at in uses.items():  # in the order of their use, so that every process limits them alike
        at, has_line = reads.get(name, (0, True))
        if not has_line and name not in sources:
            wanted.append((name, used_at, at))
    wanted = list(_limited(steps, wanted))
    lines = past.lines_with([(steps[at], name) for name, _, at in wanted]) if wanted else []
    for (name, used_at, at), line in zip(wanted, lines, strict=True):
        if line:
            place = _AFTER_EXCERPT + line.place
            sources[name] = LineOfUsedName(used_at, name, at, place, line.text, line.tokens, line.names)
    return sorted(sources.values(), key=lambda source: source.used_at)


def _first_uses(steps: Sequence[StepOutline]) -> dict[str, int]:
    """The index of the first step that wrote each name into its arguments."""
    uses: dict[str, int] = {}
    for index, step in enumerate(steps):
        for name in step.excerpt.names:
            uses.setdefault(name, index)
    return uses


def _first_reads(steps: Sequence[StepOutline], uses: dict[str, int]) -> dict[str, tuple[int, bool]]:
    """The index of the first step that read each used name before its use, and whether its excerpt has the
    line."""
    reads: dict[str, tuple[int, bool]] = {}
    names = set(uses)
    for index, step in enumerate(steps):
        excerpt = step.excerpt
        in_lines = names.intersection([name for line in excerpt.lines for name in line.names])
        for name in (*in_lines, *names.intersection(excerpt.others)):
            names.discard(name)
            if index < uses[name] and name not in reads:
                reads[name] = index, name in in_lines
    return reads


def _from_inputs(
    steps: Sequence[StepOutline],
    hidden: Sequence[InputMessage],
    uses: dict[str, int],
    reads: dict[str, tuple[int, bool]],
) -> Iterator[LineOfUsedName]:
    """The lines of inputs with a used name that no step read before."""
    names: Set[str] = set(uses)
    wanted: list[tuple[int, str, _Input]] = []
    at = 0
    for message in hidden[:MAX_INPUTS]:
        while at < len(steps) and steps[at].first_position < message.position:
            at += 1
        if at == len(steps):
            break
        lines = _lines_of(read_text(plain_text(message.content)))
        for name in sorted(names & lines.names):
            if uses[name] >= at and (name not in reads or reads[name][0] >= at):
                wanted.append((uses[name], name, _Input(at, message.position, lines)))
        names -= lines.names
    wanted.sort(key=itemgetter(0))  # a later step adds names at the end
    for used_at, name, source in wanted[:MAX_INPUT_NAMES]:
        line = source.lines.line_with(name)
        if line:
            place = _INPUT + source.position * _MAX_PLACE + line.place
            yield LineOfUsedName(used_at, name, source.at, place, line.text, line.tokens, line.names)


class _Input(NamedTuple):
    at: int
    """The index of the first step after it."""
    position: int
    lines: TextLines


def _lines_of(text: str) -> TextLines:
    return _lines_of_short(text) if len(text) <= _SHORT else _lines_of_long(text)


_lines_of_short = cached_while_busy(32)(TextLines)
_lines_of_long = cached_while_busy(8)(TextLines)
"""A text of 200,000 characters and its names take up to 5 MB."""


def _limited(
    steps: Sequence[StepOutline], wanted: Sequence[tuple[str, int, int]]
) -> Iterator[tuple[str, int, int]]:
    """Those of the names, with the steps that used and read them, that are looked for."""
    newest = steps[-1].number // PERIOD if steps else 0
    counts: dict[int, int] = {}
    read: dict[int, set[int]] = {}
    for name, used_at, at in wanted:
        period = steps[used_at].number // PERIOD
        if period <= newest - MAX_PERIODS or steps[at].excerpt.result_tokens > MAX_TOKENS:
            continue
        steps_read = read.setdefault(period, set())
        if counts.get(period, 0) == MAX_NAMES or (at not in steps_read and len(steps_read) == MAX_STEPS):
            continue
        counts[period] = counts.get(period, 0) + 1
        steps_read.add(at)
        yield name, used_at, at
