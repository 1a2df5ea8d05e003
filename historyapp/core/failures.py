"""Finds the error line of a result, and failures in results that were reported as successes.

A **likely failure** is found by the first rule of :mod:`historyapp.core.failure_rules` that fits. Which rules
are tried depends on the call: a program that only shows text (``cat``, ``git log``) shows errors of other
programs, and a tool other than a shell reports its failure in the first line. docs/likely-failures.md
states how often this is right.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from historyapp.core.call_subjects import Kind, call_subject, command_line
from historyapp.core.commands import exit_code_of, only_print, programs_of
from historyapp.core.entries import ToolResult
from historyapp.core.exit_codes import runner_exit_code
from historyapp.core.failure_rules import (
    ENDING_RULES,
    PROGRAM_RULES,
    SIGNS,
    VIEWER_RULES,
    VIEWER_SIGNS,
    after_passed_tests,
    exit_code,
    has_sign,
    refused,
)
from historyapp.core.results import returned_text
from historyapp.core.shell_output import shell_output
from historyapp.core.text import preview, without_colours

_HEAD_LENGTH, _TAIL_LENGTH = 3000, 9000
"""Characters at the beginning and the end of a long output that rules read."""
_TOOL_LENGTH = 700
"""Characters at the beginning of a tool's result in which its first two lines are searched."""
_CODE_LENGTH = 300
"""Characters at the end in which the exit code may be."""
_REFUSED_EDIT = "Your proposed edit has introduced"
_SYNTAX_ERROR = re.compile(r"^- ([A-Z][0-9]{3} [^\n]{1,300})", re.MULTILINE)
"""The reason for which SWE-agent refuses an edit, some lines below the one that says so."""
_MAX_LINE = 300
_RUNNER_NOTICES = (
    "(Open file: ", "(Current directory: ", "(Interactive session: ", "bash-$", "</output>", "<output>",
    "</stdout>", "[Current working directory: ", "[Python interpreter: ", "Wall time",
    "Original token count", "Chunk ID: ", "Total output lines: ", "Script completed", "Error: (none)",
    "Signal: ", "Background PIDs: ", "Process Group PGID: ",
    "Warning: truncated output (original token count: ",
)  # fmt: skip
"""Beginnings of the lines that an agent's runner writes around the output of a program."""
_NOTICE_CHARACTERS = {line[0] for line in _RUNNER_NOTICES}
_NPM_NOTICE = re.compile(
    r"npm (?:warn|WARN|notice)\b|> \S{1,200}@[0-9]|\(node:[0-9]{1,10}\) |\(Use `node --trace-"
)
"""The beginning of a warning of npm or Node.js, and of npm's line with the script that it runs."""
_FAILURE_WORD = re.compile(
    r"(?<!\b0 )(?<!\b[Nn]o )(?<!\b[Ww]ithout )"
    r"\b(?:error|Error|ERROR|ERR|fatal|CONFLICT|[Dd]enied|[Nn]ot found|No such|[Cc]annot|[Ff]ailed|FAILED"
    r"|[Uu]ndefined (?:symbol|reference)s?)\b"
)
"""A word in a line that says what failed, if no rule finds one in an output that was reported as an error."""
_FEW_LINES = 6
"""In a longer output without a rule's line or such a word, the first line is rarely the reason."""
_PASSED = re.compile(r"\s*(?:[✓✔√]|(?:ok|PASS|PASSED)\b)")
"""The beginning of the line of a test that passed, whose name may have such a word."""
_EXIT_CODE_0 = ("exited with code 0", "Exit code: 0", "<returncode>0<", "exit code 0")
_SEARCHES = {
    "grep", "egrep", "fgrep", "rg", "ag", "git grep", "diff", "cmp", "git diff", "test", "[", "which", "type",
    "git check-ignore", "git merge-base",
}  # fmt: skip
"""Programs that end with code 1 if they find nothing, or if files differ. Other codes are errors."""
_NOTHING_FOUND = (1, 123)
"""Their exit codes; 123 is that of ``xargs`` if a search that it ran ends with 1."""
_DIFFERENCE = re.compile(
    r"(?:diff |--- |Binary files |Files |Only in |cmp: EOF on |\d+(?:,\d+)?[acd]\d+(?:,\d+)?$)|.* differ: "
)
"""The first line that ``diff``, ``cmp`` and ``git diff`` print if they find a difference."""
_RUNNERS = {"wait", "bashoutput", "taskoutput", "write_stdin", "read_terminal"}
"""Tools that return the output of a program that another call started."""


class LikelyFailure(NamedTuple):
    """Why a result looks like a failure."""

    rule: str
    line: str
    """The first line that says so, at most 200 characters."""


class Check(NamedTuple):
    """The facts of a tool call that are stored until its result arrives."""

    rules: str
    """``program``, ``viewer`` or ``tool``."""
    programs: tuple[str, ...] = ()
    exit_code_of: str = ""
    """See :func:`historyapp.core.commands.exit_code_of`."""
    kind: Kind = "other"
    figures: tuple[int, ...] = ()
    """See :func:`historyapp.core.result_facts.call_figures`."""

    @classmethod
    def load(cls, data: Sequence[Any]) -> "Check":
        """From its stored form, a list. Earlier versions stored the first three fields."""
        rules, programs, exit_code, *kind_and_figures = data
        if not kind_and_figures:
            return cls(rules, tuple(programs), exit_code)
        kind, figures = kind_and_figures
        return cls(rules, tuple(programs), exit_code, kind, tuple(figures))


def check_of(name: str, arguments: Any, kind: Kind | None = None) -> Check:
    """The facts by which the result of a tool call is checked later. ``kind``: its kind, if known."""
    kind = kind or call_subject(name, arguments).kind
    if kind != "shell":
        return Check("program" if name.lower() in _RUNNERS else "tool", kind=kind)
    command = command_line(arguments)
    programs = programs_of(command)
    return Check("viewer" if only_print(programs) else "program", programs, exit_code_of(command), kind)


def likely_failure(result: ToolResult, check: Check, text: str | None = None) -> LikelyFailure | None:
    """The failure in a result that was reported as a success, or None.

    Args:
        text: the result's text, if it has been made already.
    """
    if result.status != "success":
        return None
    text = _text_of_tool(result, text)
    if check.rules == "tool":  # a tool reports its failure in the first lines
        refusal = refused(list(islice(_lines_of(text.lstrip()[:_TOOL_LENGTH]), 2)), ())
        if not refusal:
            return None
        reason = _SYNTAX_ERROR.search(text[:_TOOL_LENGTH]) if refusal.startswith(_REFUSED_EDIT) else None
        return LikelyFailure(refused.__name__, preview((reason[1] if reason else refusal).strip()))
    has_exit_code_0 = bool(check.exit_code_of) and any(
        mark in text[:_HEAD_LENGTH] + text[-_CODE_LENGTH:] for mark in _EXIT_CODE_0
    )
    if has_exit_code_0 and check.exit_code_of == "all":
        return None
    text, is_viewer = _head_and_tail(text), check.rules == "viewer"
    if not has_sign(text, VIEWER_SIGNS if is_viewer else SIGNS):  # most results end here
        return None
    lines, rules = list(_lines_of(text)), VIEWER_RULES if is_viewer else PROGRAM_RULES
    if has_exit_code_0:
        rules = tuple(rule for rule in rules if rule not in ENDING_RULES)
    after_tests = after_passed_tests(lines) if check.rules == "program" else lines
    for rule in rules:
        line = rule(lines if rule is exit_code else after_tests, check.programs)
        if line:
            return LikelyFailure(rule.__name__, preview(_line_in_report(line.strip(), text)))
    return None


def _text_of_tool(result: ToolResult, text: str | None) -> str:
    """The result's text without a person's feedback, which share links may hide."""
    if result.feedback:
        return returned_text(result.model_copy(update={"feedback": None}))
    return returned_text(result) if text is None else text


def found_nothing(result: ToolResult, check: Check, text: str) -> bool:
    """Whether a reported error is only the exit code of a search without a match, or of a comparison that
    found a difference. True only if the command line has no other programs than those that show text, and
    printed nothing or a diff.

    Args:
        text: the result's text.
    """
    if result.status != "error" or check.rules != "viewer" or _SEARCHES.isdisjoint(check.programs):
        return False
    output = shell_output(text)
    codes, printed = [output.exit_code], list[str]()
    for line in _lines_of(_head_and_tail(output.text)):
        code = runner_exit_code(line)
        codes.append(code)
        if code is None and line != "Output:":
            printed.append(line)
    code = next((code for code in codes if code is not None), None)
    return code in _NOTHING_FOUND and (not printed or bool(_DIFFERENCE.match(printed[0])))


def _line_in_report(line: str, text: str) -> str:
    """The line of a program that reports its failure, if a runner's report in JSON has the program's output.
    Any other line is returned unchanged.
    """
    if not line.startswith('{"'):
        return line
    whole = text[text.find(line) :].partition("\n")[0]
    if len(whole) > _HEAD_LENGTH + _TAIL_LENGTH:
        return line
    report = shell_output(whole)
    if report.exit_code is None:
        return line
    return _failure_line(list(_lines_of(report.text)), report.exit_code) or line


def _head_and_tail(text: str) -> str:
    return (
        text if len(text) <= _HEAD_LENGTH + _TAIL_LENGTH else f"{text[:_HEAD_LENGTH]}\n{text[-_TAIL_LENGTH:]}"
    )


def _lines_of(text: str) -> Iterator[str]:
    """The lines that rules read."""
    for whole in without_colours(text).splitlines():
        line = whole.rstrip()[:_MAX_LINE]
        if line and not (line[0] in _NOTICE_CHARACTERS and is_runner_notice(line)):
            yield line


def is_runner_notice(line: str) -> bool:
    """Whether the line is a runner's notice that does not report a failure."""
    return line.startswith(_RUNNER_NOTICES) or runner_exit_code(line) == 0


def without_error_tag(text: str) -> str:
    """An error text without the tag in which Claude Code encloses its own errors."""
    return text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")


def error_line(result: ToolResult, text: str | None = None) -> str:
    """The line of a result to show as its error: the first non-blank one, at most 200 characters.

    If a runner wrote around the output of a program, or npm warned before it: the line in which a rule finds
    the failure, otherwise the first line of the program. Their lines are used only if there is no other, and
    the exit code if the program printed more than a few lines and none says what failed.

    Args:
        text: the result's text, if it has been made already.
    """
    text = without_error_tag(_text_of_tool(result, text).strip())
    first = text.partition("\n")[0]
    is_notice = first.startswith(_RUNNER_NOTICES) or _NPM_NOTICE.match(first)
    if not is_notice and runner_exit_code(first) is None:
        return preview(first)
    lines = [line for line in _lines_of(_head_and_tail(text)) if line != "Output:"]
    program_lines = [line for line in lines if runner_exit_code(line) is None and not _NPM_NOTICE.match(line)]
    code = next(filter(None, map(runner_exit_code, lines)), None)
    line = (_failure_line(program_lines, code) or (lines or [first])[0]).strip()
    return preview(_line_in_report(line, text))


def _failure_line(lines: list[str], code: int | None) -> str:
    """The line of a program's output in which a rule finds the failure, otherwise the first one with a word
    of a failure. Without either, the first of a few lines, or the exit code. Empty if all are missing.
    """
    found = filter(None, (rule(lines, ()) for rule in PROGRAM_RULES if rule is not exit_code))
    worded = (line for line in lines if _FAILURE_WORD.search(line) and not _PASSED.match(line))
    if line := next(found, "") or next(worded, ""):
        return line
    if code and (not lines or len(lines) > _FEW_LINES):
        return f"exit code {code}"
    return lines[0] if lines else ""
