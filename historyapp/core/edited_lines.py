"""Counts the lines that an edit adds and removes, from its arguments alone."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from historyapp.core.call_subjects import (
    MAX_PATCH,
    PATCHED_FILE,
    PATHS,
    command_line,
    patch_lines,
    patch_text,
)
from historyapp.core.line_diff import WorkLeft, lines_in_common
from historyapp.core.text import MAX_READ, preview

_OLD, _NEW = ("old_string", "old_str"), ("new_string", "new_str")
_WHOLE = ("content", "contents", "file_text", "new_source")
_INSERTED = "insert_text"
_PATCHES = ("patch", "diff", "input")
_DELETED, _MOVED = "*** Delete File: ", "*** Move to: "
_MAX_EDITS = 100
_AT_CURSOR = "edit\n"
_EDIT_COMMAND = re.compile(r"edit (\d{1,7}):(\d{1,7})\n")


class LineCount(NamedTuple):
    added: int = 0
    removed: int = 0


def edited_lines(arguments: Any, work: WorkLeft | None = None) -> LineCount:
    """The lines that an edit adds and removes.

    Lines that a replaced text and the new one have in common do not count, unless the texts are very long. A
    file that is written whole counts as added, because the tool call does not say what was there before.

    Args:
        arguments: of a call whose kind is ``edit``: an object, or the text that the model wrote.
        work: for comparing texts, shared by the calls of a step.
    """
    work = work or WorkLeft()
    if isinstance(arguments, str):
        return _patch_count(arguments)
    if not isinstance(arguments, Mapping):
        return LineCount()
    edits = arguments.get("edits")
    edit_list = edits[:_MAX_EDITS] if isinstance(edits, list) else [arguments]
    counts = [_edit_count(edit, work) for edit in edit_list if isinstance(edit, Mapping)]
    return LineCount(sum(count.added for count in counts), sum(count.removed for count in counts))


def lines_by_file(arguments: Any) -> dict[str, LineCount]:
    """The lines that a patch adds to and removes from each of its files. Empty if there is no patch, or its
    length exceeds :data:`MAX_PATCH`.
    """
    patch = _patch_of(arguments)
    counts: dict[str, LineCount] = {}
    file = ""
    for line in patch_lines(patch):
        if prefix := next((prefix for prefix in PATCHED_FILE if line.startswith(prefix)), ""):
            file = preview(line.removeprefix(prefix))
        elif file and line.startswith(("+", "-")) and not line.startswith(("+++", "---")):
            added, removed = counts.get(file, LineCount())
            counts[file] = LineCount(added + (line[0] == "+"), removed + (line[0] == "-"))
    return counts


def deleted_files(arguments: Any) -> frozenset[str]:
    """The files that an edit deletes or moves: those of a patch, or that of an editor's ``delete``. Empty if
    the patch is longer than :data:`MAX_PATCH`.
    """
    if isinstance(arguments, Mapping) and arguments.get("command") == "delete":
        return frozenset((preview(_text(arguments, PATHS)),))
    patch = _patch_of(arguments)
    if _DELETED not in patch and _MOVED not in patch:
        return frozenset()
    deleted, file = set[str](), ""
    for line in patch_lines(patch):
        if line.startswith(_MOVED):
            deleted.add(file)
        elif prefix := next((prefix for prefix in PATCHED_FILE if line.startswith(prefix)), ""):
            file = preview(line.removeprefix(prefix))
            if prefix == _DELETED:
                deleted.add(file)
    return frozenset(deleted)


def _patch_of(arguments: Any) -> str:
    """The text of an edit that may be a patch; empty if it is longer than :data:`MAX_PATCH`."""
    if isinstance(arguments, Mapping):
        arguments = _text(arguments, _PATCHES) or command_line(arguments)
    return arguments if isinstance(arguments, str) and len(arguments) <= MAX_PATCH else ""


def _edit_count(edit: Mapping[str, Any], work: WorkLeft) -> LineCount:
    old, new = _text(edit, _OLD), _text(edit, _NEW)
    if old or new:
        if len(old) + len(new) > MAX_READ:
            return LineCount(_line_count(new), _line_count(old))
        before, after = old.splitlines(), new.splitlines()
        common = len(lines_in_common(before, after, work))
        return LineCount(len(after) - common, len(before) - common)
    if whole := _text(edit, (*_WHOLE, _INSERTED)):
        return LineCount(_line_count(whole))
    if isinstance(replacement := edit.get("replacement_text"), str):
        first, last = edit.get("start_line"), edit.get("end_line")
        replaced = last - first + 1 if isinstance(first, int) and isinstance(last, int) else 0
        return LineCount(_line_count(replacement), max(0, replaced))
    return lines_edited_by(edit.get("command")) or _patch_count(_text(edit, _PATCHES) or command_line(edit))


def lines_edited_by(command: Any) -> LineCount | None:
    """The lines that SWE-agent's shell command ``edit 3:4`` changes; None for any other command.

    The form without lines replaces the text between two cursors, which the command does not name.
    """
    if not isinstance(command, str) or not command.startswith(("edit ", _AT_CURSOR)):
        return None  # most commands end here, without the slower pattern
    if command.startswith(_AT_CURSOR):
        return LineCount(_line_count(command.removeprefix(_AT_CURSOR).rpartition("end_of_edit")[0]))
    match = _EDIT_COMMAND.match(command)
    if match is None:
        return None
    new, _, _ = command[match.end() :].rpartition("end_of_edit")
    return LineCount(_line_count(new), max(0, int(match[2]) - int(match[1]) + 1))


def edits_at_cursor(arguments: Any) -> bool:
    """Whether an edit gives only the lines that it writes, and not the lines that it replaces."""
    command = arguments.get("command") if isinstance(arguments, Mapping) else None
    return isinstance(command, str) and command.startswith(_AT_CURSOR)


def writes_whole_file(arguments: Any) -> bool:
    """Whether an edit gives all lines of one file, which may be new."""
    if isinstance(arguments, Mapping):
        if _text(arguments, _WHOLE):
            return not _text(arguments, (*_OLD, *_NEW)) and not isinstance(arguments.get("edits"), list)
        arguments = _text(arguments, _PATCHES) or command_line(arguments)
    if not isinstance(arguments, str):
        return False
    files = [line for line in patch_lines(arguments) if line.startswith(PATCHED_FILE)]
    return len(files) == 1 and files[0].startswith("*** Add File: ")


def _text(arguments: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((value for name in names if isinstance(value := arguments.get(name), str) and value), "")


def _line_count(text: str) -> int:
    if len(text) > MAX_READ:
        return text.count("\n") + (not text.endswith("\n"))  # a list of all lines would take a second
    return len(text.splitlines())


def _patch_count(patch: str) -> LineCount:
    if len(patch) > MAX_PATCH:
        patch = patch_text(patch)
        return LineCount(patch.count("\n+") - patch.count("\n+++"), patch.count("\n-") - patch.count("\n---"))
    lines = patch_lines(patch)
    return LineCount(
        sum(line.startswith("+") and not line.startswith("+++") for line in lines),
        sum(line.startswith("-") and not line.startswith("---") for line in lines),
    )
