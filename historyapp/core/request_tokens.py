"""Counts the tokens of a request and compares them with the input that the provider reported.

A transcript does not contain the whole request: the system prompt, the tools and the harness's additions are
missing. The first reported input of a window shows how many tokens this unseen part has. A new process of the
agent and another model have another unseen part, so they begin a window too. After that, each request is
expected to grow by the tokens of the added entries. If the report differs from this by more than
:data:`JUMP`, something was added or removed without a record. The unseen part is then computed again, at once
if the log names the event: the request is smaller than the previous one, so the agent removed something; an
input names files that the agent attached; or the provider ran a tool itself, for example a web search.

Outputs count as billed. OpenAI's models do not see the reasoning of earlier turns again, and Gemini CLI never
sends thoughts back. Other texts are counted by our tokenizer, times the model's factor. Results that Claude
Code cleared by its own rule do not count, see :mod:`historyapp.core.microcompaction`.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Literal, NamedTuple

from historyapp.core.entries import text_of
from historyapp.core.json import mapping
from historyapp.core.microcompaction import PLACEHOLDER, ClearableResult, results_to_clear
from historyapp.core.sent_tokens import RESULT_FACTOR, factor_for, output_tokens, result_tokens
from historyapp.core.text import MAX_READ
from historyapp.core.usage import Usage, usage_of
from historyapp.core.windows import LogRow

Part = Literal[
    "unseen", "instruction", "notebook", "tools", "summary", "person", "harness", "results", "assistant",
    "steps", "screen", "overhead", "removed",
]  # fmt: skip
"""The parts of a request. ``steps``, ``screen``, ``overhead`` and ``tools`` are known only for snapshots.
``removed`` is negative: the tokens that were removed from the other parts."""
HOSTED_TOKENS = 3_700
"""Expected tokens of one web search, or of one page that the provider opened: the mean of 17 of them in the
Codex sessions of the corpus, 2026-11-28. They had between 200 and 6,900."""
_MAX_HOSTED = 1_000
MAX_CHECKS = 100
"""How often the results of one window are looked through for those that Claude Code cleared."""
ATTACHED_TOKENS = 2_900
"""Expected tokens, by our tokenizer, of a file that Claude Code attaches and the transcript does not contain:
the mean of the 163 files that agents read whole in the corpus, 2,830, and a frame."""
JUMP, MIN_JUMP = 0.05, 2_000
"""Larger differences are not counting errors: as a share of the reported input, and in tokens."""

Reason = Literal["resumed", "model", "cleared", "removed", "attached", "hosted", "unknown"]
"""Why a request differs from its expected size: a new process of the agent built it; it went to another
model; Claude Code cleared old results by its rule; it is smaller than the previous one, so something was
removed; an input names files whose text is not in the log; the provider ran a tool and kept the result; or
the reason is unknown."""
BEGINNINGS: tuple[Reason, ...] = ("resumed", "model")
"""The reasons for which a window begins."""
_ALWAYS: tuple[Reason, ...] = (*BEGINNINGS, "hosted")
"""The reasons for which the unseen part is computed again even if the difference is small."""
_EXITS = ("<command-name>/exit</command-name>", "<command-name>/quit</command-name>")
ATTACHMENT = "@"
"""The sign before the path of a file that Claude Code attaches."""


class Jump(NamedTuple):
    """Tokens that were added to or removed from the request without a trace in the transcript."""

    position: int
    """The position of the output whose request had them first."""
    tokens: int
    """Negative if they were removed."""
    reason: Reason = "unknown"


class RequestTokens(NamedTuple):
    """The tokens of one request."""

    parts: dict[Part, int]
    """By our count; ``unseen`` only if it is known."""
    reported: Usage | None
    """Null: the provider reported nothing."""
    anchor: int | None
    """The position of the output whose request determined the unseen part; None if no request of the window
    was reported."""
    jumps: tuple[Jump, ...] = ()
    cleared: tuple[int, ...] = ()
    """The positions of results that Claude Code had replaced with a placeholder."""
    is_remainder: bool = False
    """Whether the unseen part has more or less than that of the window's first request: not only tools."""
    last_difference: int = 0
    """The difference of the newest request before that was reported."""
    left_thoughts: int = 0
    """Tokens of thoughts that the request before had: the provider leaves out those of earlier turns."""

    @property
    def expected(self) -> int:
        """Tokens of all parts."""
        return sum(self.parts.values())

    @property
    def difference(self) -> int | None:
        """The reported input less what was expected; null if that is not known."""
        return None if self.reported is None else self.reported.input - self.expected


def count_request(
    rows: Iterable[LogRow], fixed: dict[Part, int], output: LogRow | None, model: str = ""
) -> RequestTokens:
    """The tokens of the request that led to an output.

    Args:
        rows: the entries of the request, oldest first.
        fixed: tokens of instruction, notebook and replaced history, by our tokenizer.
        output: the output itself; None if the request has not been answered.
        model: the model of outputs that name none.
    """
    count = _Count(fixed, model)
    for row in rows:
        count.add(row)
    reported, last_difference = None, count.last_gap
    if output is not None:
        count.compare(output, is_last=True)
        reported = _reported(output)
    return RequestTokens(
        count.parts(), reported, count.anchor, tuple(count.jumps), count.cleared,
        is_remainder=count.unseen != count.first_unseen,
        last_difference=last_difference, left_thoughts=count.left_thoughts,
    )  # fmt: skip


class _Count:
    """The running count of one window."""

    def __init__(self, fixed: dict[Part, int], model: str) -> None:
        self._fixed = fixed
        self._model = model
        self._texts = Counter[Part]()
        """Tokens of inputs and results, by our tokenizer."""
        self._results = 0
        """The number of entries with results."""
        self._earlier_turns = 0
        """Tokens of the outputs of earlier turns, as the model sees them again."""
        self._turn = self._turn_later = 0
        """Tokens of the outputs since the person's newest input: within the turn, and after it."""
        self._turn_thoughts = 0
        """Those of them that are thoughts, which are left out after the turn."""
        self.left_thoughts = 0
        """The thoughts that have been left out since the newest output."""
        self.unseen: int | None = None
        self.first_unseen: int | None = None
        """The unseen part of the window's first request."""
        self._removed = 0
        """Tokens that were removed without a record; negative."""
        self.last_gap = 0
        self._last_input = 0
        """The last reported input."""
        self._names_files = False
        """Whether an input since the last output names files to attach."""
        self._records_files = False
        """Whether the transcript has what Claude Code attaches, as those of newer versions do."""
        self._expected_files = 0
        """The expected tokens of attached files since the last reported input. ``unseen`` has them."""
        self._had_hosted = False
        """Whether the last output used a tool that its provider runs."""
        self._clearable: list[ClearableResult] = []
        """The results that Claude Code may clear, oldest first."""
        self._cleared: list[ClearableResult] = []
        """Those that it has cleared, oldest first."""
        self._checks = 0
        """How often it may have cleared results."""
        self._last_output = 0
        """The output tokens of the last model call with a reported input."""
        self._is_resumed = False
        """Whether a new process continued the session since the last reported input."""
        self._reported_model = ""
        """The model of the last reported input."""
        self.anchor: int | None = None
        self.jumps: list[Jump] = []

    def add(self, row: LogRow) -> None:
        """One more entry of the request."""
        if row.kind == "model_output":
            self.compare(row)
            self.left_thoughts = 0
            now, later = output_tokens(row, self._model)
            self._turn += now
            self._turn_later += later
            self._turn_thoughts += now - later if usage_of(row.metadata).reasoning else 0
            return
        part = part_of(row)
        self._is_resumed = self._is_resumed or is_resumed(row)
        if part == "results":
            self._results += 1
            estimate = mapping(row.metadata.get("source")).get("clearable")
            if isinstance(estimate, int):
                self._clearable.append(ClearableResult(row.position, estimate, row.tokens))
        self._names_files = self._names_files or _names_files(row)
        self._expect_files(row)
        if part == "person":
            self._earlier_turns += self._turn_later
            self.left_thoughts += self._turn_thoughts
            self._turn = self._turn_later = self._turn_thoughts = 0
        self._texts[part] += row.tokens

    def _expect_files(self, row: LogRow) -> None:
        """Adds the expected tokens of files that Claude Code attaches to an input, unless it records them."""
        if self.unseen is None:
            return
        if isinstance(row.body.get("raw_input"), dict):
            self._records_files = True
            self.unseen -= self._expected_files
            self._expected_files = 0
        elif not self._records_files:
            is_claude_code = mapping(row.metadata.get("source")).get("format") == "claude_code"
            names = _named_files(row) if is_claude_code else ()
            # Claude Code probably attaches files whose names are clearly paths.
            paths = [name for name in names if "/" in name or name.endswith(".md")]
            tokens = round(ATTACHED_TOKENS * RESULT_FACTOR) * sum(
                "." in path.rpartition("/")[2] for path in paths
            )
            self.unseen += tokens
            self._expected_files += tokens

    def compare(self, output: LogRow, *, is_last: bool = False) -> None:
        """Compares with what the provider reported for the request that led to an output."""
        model = output.metadata.get("model")
        self._model = model if isinstance(model, str) and model else self._model
        hosted = _hosted(output)
        if self.unseen is not None:
            self.unseen += HOSTED_TOKENS * hosted
        reported = _reported(output)
        if reported is None:
            return
        if self._is_resumed:  # a new process sends the results again
            self._removed = 0
            self._clearable[:0] = self._cleared
            self._cleared.clear()
        elif reported.input < self._last_input:
            self._clear(output.position)
        gap = reported.input - sum(self.parts().values())
        reason = self._reason(gap, reported.input, bool(hosted))
        is_known = reason in _ALWAYS or (reason == "attached" and self._expected_files > 0)
        self._last_input, self._last_output = reported.input, reported.output
        self._reported_model, self._had_hosted = self._model, bool(hosted)
        self._names_files = self._is_resumed = False
        self._expected_files = 0
        if self.unseen is None:
            self.unseen = self.first_unseen = gap
            self.anchor, self.last_gap = output.position, 0
            return
        if is_last and reason == "unknown":
            return
        if is_known or abs(gap - self.last_gap) > max(MIN_JUMP, JUMP * reported.input):
            self.jumps.append(Jump(output.position, gap, reason))
            if reason == "removed":
                self._removed += gap
            else:
                self.unseen += gap
            if reason in BEGINNINGS:
                self.first_unseen = self.unseen
            gap = 0
            if reason != "unknown":
                self.anchor = output.position
        self.last_gap = gap

    def _clear(self, position: int) -> None:
        """Removes the results that Claude Code cleared just before a request, by its rule."""
        self._checks += 1
        if self._checks > MAX_CHECKS:
            return
        results = results_to_clear(self._clearable, self._last_input + self._last_output)
        if not results:
            return
        del self._clearable[: len(results)]
        self._cleared += results
        sizes = (result_tokens(result.tokens, 0, self._model) for result in results)
        tokens = -sum(max(0, size - PLACEHOLDER) for size in sizes)
        self._removed += tokens
        self.jumps.append(Jump(position, tokens, "cleared"))

    def _reason(self, gap: int, sent: int, has_hosted: bool) -> Reason:
        """Why a request may differ from its expected size."""
        if self._is_resumed:
            return "resumed"
        if self._reported_model and self._reported_model != self._model:
            return "model"
        if has_hosted or self._had_hosted:
            return "hosted"
        if self._expected_files and sent >= self._last_input:
            return "attached"
        if gap < self.last_gap:
            return "removed" if sent < self._last_input else "unknown"
        return "attached" if self._names_files else "unknown"

    @property
    def cleared(self) -> tuple[int, ...]:
        return tuple(result.position for result in self._cleared)

    def parts(self) -> dict[Part, int]:
        """The count so far."""
        factor = factor_for(self._model)
        counts = Counter[Part](self._fixed) + self._texts
        counted: dict[Part, int] = {part: round(tokens * factor) for part, tokens in counts.items()}
        if self._results:
            counted["results"] = result_tokens(self._texts["results"], self._results, self._model)
        outputs = self._earlier_turns + self._turn
        if outputs:
            counted["assistant"] = outputs
        if self._removed:
            counted["removed"] = self._removed
        return counted | ({"unseen": self.unseen} if self.unseen is not None else {})


def part_of(row: LogRow) -> Part:
    """The part of a request to which an entry belongs."""
    match row.kind:
        case "model_output":
            return "assistant"
        case "tool_results":
            return "results"
    if row.channel == "compaction":
        return "summary"
    return "person" if row.channel == "user" else "harness"


def is_resumed(row: LogRow) -> bool:
    """Whether a new process of Claude Code continues the session with this input, or after it."""
    if row.kind != "model_input":
        return False
    is_exit = row.channel == "command" and text_of(row.body.get("content")).strip().startswith(_EXITS)
    return is_exit or bool(mapping(row.metadata.get("source")).get("resumed"))


def _hosted(output: LogRow) -> int:
    """How many tools the provider ran itself for an output. The log does not contain their results."""
    hosted = mapping(output.metadata.get("source")).get("hosted")
    if not isinstance(hosted, int) or isinstance(hosted, bool):
        return 0
    return hosted if 0 < hosted < _MAX_HOSTED else 0


def _named_files(row: LogRow) -> set[str]:
    """The names after ``@`` in the beginning of an input, as ``docs/plan.md``."""
    words = text_of(row.body.get("content"))[:MAX_READ].split() if row.kind == "model_input" else []
    return {word.rstrip(".,;:!?)")[1:] for word in words if word.startswith(ATTACHMENT)}


def _names_files(row: LogRow) -> bool:
    """Whether an input may name files that Claude Code attaches."""
    return any("/" in name or "." in name for name in _named_files(row))


def _reported(output: LogRow) -> Usage | None:
    usage = usage_of(output.metadata)
    return usage if usage.input else None
