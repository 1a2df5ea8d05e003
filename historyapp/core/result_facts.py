"""Describes a result in a few words: lines that were read or changed, matches, the last line printed.

Rows of lists show it in place of what harnesses say, such as "The file … has been updated". Facts from the
arguments are stored when the call is made (:func:`call_figures`), so the result needs no earlier entry. A
rule that finds nothing returns an empty text. Appends wait for these rules, so each reads a bounded part of a
result.
"""

import re
from collections.abc import Mapping
from typing import Any

from historyapp.core.call_subjects import Kind
from historyapp.core.edited_lines import edited_lines, edits_at_cursor, writes_whole_file
from historyapp.core.failures import Check, is_runner_notice
from historyapp.core.line_diff import WorkLeft
from historyapp.core.numbering import line_range
from historyapp.core.results import NO_OUTPUT
from historyapp.core.text import without_colours

_HEAD = 300
"""Characters at the beginning in which a harness reports what it did."""
_TAIL = 4_000
"""Characters at the end of an output in which the last line is looked for."""
_SEARCHED = 60_000
"""Characters of a search result whose matches are counted."""
_MAX_LINE = 500
_TASKS = ("todos", "plan", "task_list")
_DONE = (
    "updated", "uccess", "created", "Applied ", "edited", "Done", "ompleted", "overwr", "inserted", "saved",
)  # fmt: skip
"""Words in the first line of the result of a successful edit."""
_DIFF = ("--- ", "diff --git ", "@@ ")
_PATCHED = "{}"
"""What a script of Codex prints after it has applied a patch."""
_NEW_FILE = ("created successfully", "successfully created", "new file", "\nA ", "@@ -0,0 +1")
_SHOWN = re.compile(r"Showing lines (\d{1,9})-(\d{1,9}) of ")
_NOTHING = re.compile(r"No (match|file)(?:es|s)? found|Found 0 (match|file)")
_FOUND = re.compile(r"Found (\d{1,9}) (match|file)(?:es|s|\(s\))?(?![A-Za-z])")
_TOTAL = re.compile(r"Found (\d{1,9}) total occurrences? across (\d{1,9}) files?")
_PLACE = re.compile(r"((?:[A-Za-z]:(?=[/\\]))?[^:\t\"{}<>|;=]{1,400}):\d{1,7}[:\t]")
_MARKED_PLACE = re.compile(r":\d{1,7}[:\t]")
"""A part of every place. Most results do not contain it, so their lines need not be searched."""
_NUMBERED = re.compile(r"\n {0,9}+\d{1,7}+[:→\t]")  # possessive: half the time where lines are indented
_NO_PATH = frozenset('\t"{}<>|;=')
"""Characters that do not occur in the path of a file."""
_NOTES = ("[", "(")
"""The beginnings of lines that a harness adds to the results."""
_STRUCTURED = ("{", "<", "[{", "[\n")
"""The beginnings of structured outputs, whose last line says little."""
_FOLDER = "Here's the files and directories "
_ONE_LINE = "(1 lines total)]"
_SILENT = "Your command ran successfully and did not produce any output"
_FILE, _UPDATED = "[File: ", "File updated. "
_CURSORS = ("<<<<< START CURSOR >>>>>\n", "<<<<< END CURSOR >>>>>\n")
_TASK_MADE = re.compile(r"Task #(\d{1,9}) created successfully")
_TASK_CHANGED = re.compile(r"Updated task #\d{1,9} ([a-zA-Z, ]{1,100})(?:\n|$)")
_PROCESS_DONE = "///PROCESS-DONE:"
_OF_HARNESS = ("Shell cwd was reset to ", "<system-reminder>", "</system-reminder>")

_TEST_COUNTS = re.compile(r"(?:Tests:? {1,20})?\d{1,7} (?:passed|failed|skipped)\b")
"""The line of a test runner with the number of tests that passed and failed."""
_AFTER_TEST_COUNTS = (
    "Start at ", "Duration ", "Type Errors ", "Snapshots: ", "Time: ", "Ran all test suites",
)  # fmt: skip
"""The beginnings of the lines that vitest and jest print after it."""


def call_figures(kind: Kind, arguments: Any, work: WorkLeft | None = None) -> tuple[int, ...]:
    """Facts about the result that follow from the arguments.

    Args:
        work: see :func:`edited_lines`.

    Returns:
        For an edit: the number of lines added and removed, or only of the lines added if the call does not
        say which lines it replaces, for example when it writes a whole file. For a read: the first line and
        the last one, or 0 for the end of the file. For a list of tasks: their number. Empty if unknown.
    """
    if kind == "edit":
        lines = edited_lines(arguments, work)
        has_old_lines = not (writes_whole_file(arguments) or edits_at_cursor(arguments))
        return (*lines,) if has_old_lines else (lines.added,)
    if kind not in ("plan", "read") or not isinstance(arguments, Mapping):
        return ()
    if kind == "plan":
        tasks = next((arguments[name] for name in _TASKS if isinstance(arguments.get(name), list)), ())
        return (len(tasks),) if tasks else ()
    return _requested_lines(arguments)


def _requested_lines(arguments: Mapping[str, Any]) -> tuple[int, ...]:
    """The part of a file that a read asks for."""
    shown = arguments.get("view_range")
    if not isinstance(shown, list) or len(shown) != 2:
        shown = [arguments.get("start_line"), arguments.get("end_line", 0)]
    if shown[0] is None and (limit := arguments.get("limit")) is not None:
        first = arguments.get("offset", 1)
        shown = [first, first + limit - 1] if _are_numbers(first, limit) else [None, None]
    if not _are_numbers(*shown) or shown[0] < 1:
        return ()
    return shown[0], max(shown[1], 0)


def _are_numbers(*values: Any) -> bool:
    return all(type(value) is int and -1 <= value < 1_000_000_000 for value in values)


def result_fact(check: Check, text: str) -> str:
    """The text in the row of a successful call, or an empty text.

    Args:
        text: what the tool returned, without the harness's text before it.
    """
    match check.kind:
        case "read":
            return _listed(text) or _lines_read(check.figures, text) or _match_count(text)
        case "edit":
            return _lines_changed(check.figures, text)
        case "search":
            return _match_count(text) or _places(text)
        case "shell":
            return _printed(check, text)
        case "plan":
            return _count(check.figures[0], "task") if check.figures else _task_fact(text)
    return ""


def _task_fact(text: str) -> str:
    """What Claude Code reports about one task, without the words that the call already contains."""
    if made := _TASK_MADE.match(text):
        return f"task {made[1]}"
    changed = _TASK_CHANGED.match(text)
    return f"{changed[1]} updated" if changed else ""


def _count(number: int, noun: str, more: str = "") -> str:
    suffix = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:,}{more} {noun}{suffix}"


def _lines_read(requested: tuple[int, ...], text: str) -> str:
    if text.startswith(_FILE):
        for mark in _CURSORS:
            text = text.replace(mark, "", 1)
    numbers = line_range(text)
    if numbers is None and (shown := _SHOWN.search(text[:_HEAD])):
        numbers = int(shown[1]), int(shown[2])
    if numbers is None and requested and text:
        first, returned = requested[0], text.count("\n") + (not text.endswith("\n"))
        last = first + returned - 1
        numbers = first, min(last, requested[1]) if requested[1] >= first else last
    if numbers is None:
        return _single_line(text)
    return f"lines {numbers[0]:,}–{numbers[1]:,}" if numbers[0] < numbers[1] else f"line {numbers[0]:,}"


def _single_line(text: str) -> str:
    """The fact for SWE-agent's view of a file that has only one line."""
    return _count(1, "line") if text.startswith(_FILE) and _ONE_LINE in text[:_HEAD] else ""


def _lines_changed(figures: tuple[int, ...], text: str) -> str:
    head = text[:_HEAD]
    if len(figures) > 1 and _UPDATED in head + text[-_TAIL:]:  # SWE-agent shows the file before this text
        return _signed(figures)
    if len(figures) == 1 and text.startswith(_FILE):
        return f"{_count(figures[0], 'line')} written"
    first = head.partition("\n")[0]
    if not any(figures):
        return _single_line(text)
    is_done = first == _PATCHED or first.startswith(_DIFF) or any(mark in first for mark in _DONE)
    if not is_done:
        return ""
    if len(figures) == 1:
        lines = _count(figures[0], "line")
        return f"new file, {lines}" if any(mark in head for mark in _NEW_FILE) else f"{lines} written"
    return _signed(figures)


def _signed(figures: tuple[int, ...]) -> str:
    return " ".join(f"{sign}{lines:,}" for sign, lines in zip("+−", figures, strict=True) if lines)


def _match_count(text: str) -> str:
    """The number of matches that a harness reports. For a single match its place, if the next line has it."""
    if nothing := _NOTHING.match(text):
        return "no files" if "file" in nothing[0] else "no matches"
    if total := _TOTAL.search(text[-_HEAD:]):
        return f"{_count(int(total[1]), 'match')} in {_count(int(total[2]), 'file')}"
    match = _FOUND.match(text)
    if match is None:
        return ""
    number, after = int(match[1]), text[: _HEAD + _MAX_LINE].split("\n", 2)[1:2]
    if number == 1 and after and _is_path(after[0]):
        return after[0]
    files = text[:_SEARCHED].count("\nFile: ") if match[2] == "match" and len(text) <= _SEARCHED else 0
    return _count(number, match[2]) + (f" in {_count(files, 'file')}" if files else "")


def _places(text: str) -> str:
    """The number of matches or files that the lines of a search name. Nothing for a single one, because its
    line says more."""
    read = text[:_SEARCHED]
    paths: list[str] = []  # list[str]() takes ten times as long, and appends wait for this
    if _MARKED_PLACE.search(read):
        matches = (_PLACE.match(line) for line in read.split("\n") if not line.startswith(_NOTES))
        paths = [match[1] for match in matches if match]
    if len(paths) > 1:
        return f"{_count(len(paths), 'match', _more(text))} in {_count(len(set(paths)), 'file')}"
    numbered = len(_NUMBERED.findall(f"\n{read}"))
    if numbered > 1:
        return _count(numbered, "match", _more(text))
    files = 0 if paths else _number_of_paths(read)
    return _count(files, "file", _more(text)) if files > 1 else ""


def _more(text: str) -> str:
    """A plus sign if a search found more than was counted."""
    return "+" if len(text) > _SEARCHED or "(Results are truncated" in text[-_HEAD:] else ""


def _number_of_paths(text: str) -> int:
    """The number of lines if all of them, except notes, are paths of files; otherwise 0."""
    first = text.partition("\n")[0]
    if first and not first.startswith(_NOTES) and not _is_path(first):
        return 0  # most results: this avoids splitting them
    lines = [line for line in text.split("\n") if line and not line.startswith(_NOTES)]
    return len(lines) if all(map(_is_path, lines)) else 0


def _is_path(line: str) -> bool:
    has_mark = "/" in line or "\\" in line or "." in line
    return has_mark and len(line) <= _MAX_LINE and ": " not in line and _NO_PATH.isdisjoint(line)


def _listed(text: str) -> str:
    """The number of paths that the view of a folder lists, without the folder itself."""
    if not text.startswith(_FOLDER):
        return ""
    paths = text[:_SEARCHED].count("\n/")
    return _count(max(0, paths - 1), "path", "+" if len(text) > _SEARCHED else "")


def _printed(check: Check, text: str) -> str:
    """What a command printed. SWE-agent's commands can also show files."""
    if text.startswith(_SILENT):
        return NO_OUTPUT
    if text.startswith(_FILE):
        return _lines_read((), text)
    return "" if check.rules == "viewer" else _last_line(text)


def _last_line(text: str) -> str:
    """The last line that a program printed with a letter or a digit in it. Of a test run the line that counts
    its tests, even if lines such as its duration follow."""
    if text.startswith(_STRUCTURED):
        return ""
    last = ""
    for line in reversed(without_colours(text[-_TAIL:]).splitlines()):
        words = line.partition(_PROCESS_DONE)[0].strip()
        if words.startswith("</"):
            return last
        says_nothing = words.startswith(_OF_HARNESS) or is_runner_notice(words)
        if says_nothing or not any(map(str.isalnum, words[:_MAX_LINE])):
            continue
        if _TEST_COUNTS.match(words):
            return words
        if not words.startswith(_AFTER_TEST_COUNTS):
            return last or words
        last = last or words
    return last
