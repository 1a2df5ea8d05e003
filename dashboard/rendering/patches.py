"""Edits as diffs: the differences of two texts, and the files that a patch changes.

Reads unified diffs, also those of git, and the patches of ``apply_patch``. Other texts are not patches.
"""

import re
from dataclasses import dataclass, field

from historyapp.core.call_subjects import patch_text
from historyapp.core.line_diff import WorkLeft, lines_in_common, marked_lines
from historyapp.core.text import MAX_READ

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_BEGINNINGS = ("diff --git ", "--- ", _BEGIN)
_BLANK = 40
"""A patch begins within this many characters. Before it are blank lines at most."""
_HEADS = {"*** Update File: ": "", "*** Add File: ": "new file", "*** Delete File: ": "deleted"}
_GIT_HEADS = (
    "index ",
    "old mode ",
    "new mode ",
    "similarity index ",
    "deleted file mode ",
    "new file mode ",
    "rename ",
    "Binary files ",
)


@dataclass(slots=True)
class FilePatch:
    """What a patch does to one file."""

    path: str
    note: str = ""
    """``new file``, ``deleted`` or where the file is moved to."""
    lines: list[str] = field(default_factory=list)
    """Each begins with ``+``, ``-``, a space, or ``@@`` at the head of a part."""

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@dataclass(slots=True)
class Patch:
    """The files of a patch, and the lines outside of them."""

    files: list[FilePatch] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


def begins_with_patch(text: str) -> bool:
    """Whether the output of a tool or command begins with a patch. SWE-agent writes a blank line first."""
    return text[:_BLANK].lstrip().startswith(_BEGINNINGS)


def parse_patch(text: str) -> Patch | None:
    """The patch in a text. None if there is none, or the text has more than ``MAX_READ`` characters."""
    if len(text) > MAX_READ:
        return None
    text = patch_text(text)
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    patch = _apply_patch(lines) if _BEGIN in text else _unified(lines)
    return patch if any(file.lines or file.note for file in patch.files) else None


def _apply_patch(lines: list[str]) -> Patch:
    patch, is_inside = Patch(), False
    for line in lines:
        head = next((head for head in _HEADS if line.startswith(head) and line[len(head) :].strip()), "")
        if line.startswith(_BEGIN):
            is_inside = True
        elif not is_inside or line.startswith(_END):
            is_inside = False
            if not line.startswith(_END) and line:
                patch.others.append(line)
        elif head:
            patch.files.append(FilePatch(line.removeprefix(head), _HEADS[head]))
        elif not patch.files:
            patch.others.append(line)
        elif line.startswith("*** Move to: "):
            patch.files[-1].note = f"moved to {line.removeprefix('*** Move to: ')}"
        elif line != "*** End of File":
            is_change = line[:1] in ("+", "-", " ") or line.startswith("@@")
            patch.files[-1].lines.append(line if is_change else f" {line}")
    return patch


def _unified(lines: list[str]) -> Patch:
    patch, is_in_part = Patch(), False
    for index, line in enumerate(lines):
        following = lines[index + 1] if index + 1 < len(lines) else ""
        is_named = index > 0 and lines[index - 1].startswith("--- ") and line.startswith("+++ ")
        if line.startswith("diff --git "):
            patch.files.append(FilePatch(line.partition(" b/")[2] or line))
            is_in_part = False
        elif line.startswith("--- ") and following.startswith("+++ "):
            _begin_file(patch, line, following)
            is_in_part = False
        elif line.startswith("@@ ") and patch.files:
            patch.files[-1].lines.append(line)
            is_in_part = True
        elif is_in_part and line[:1] in ("+", "-", " ", "\\", ""):
            patch.files[-1].lines.append(line or " ")
        elif not is_named and not line.startswith(_GIT_HEADS) and line:
            patch.others.append(line)
            is_in_part = False
    return patch


def _begin_file(patch: Patch, old: str, new: str) -> None:
    """Begins a file, or names the one that ``diff --git`` began."""
    paths = [line[4:].split("\t")[0] for line in (old, new)]
    path = next((path for path in reversed(paths) if path != "/dev/null"), "")
    note = {0: "new file", 1: "deleted"}.get(paths.index("/dev/null"), "") if "/dev/null" in paths else ""
    path = path[2:] if path.startswith(("a/", "b/")) else path
    if patch.files and not patch.files[-1].lines and patch.files[-1].path in (path, ""):
        patch.files[-1].note = note
    else:
        patch.files.append(FilePatch(path, note))


def edit_diff(old: str, new: str, work: WorkLeft | None = None) -> str:
    """What an edit removes and adds, with the unchanged lines around it. The lines of long texts are not
    compared.

    Args:
        work: shared by the edits of a step.
    """
    if len(old) + len(new) > MAX_READ:
        return "\n".join(filter(None, (_marked("-", old), _marked("+", new))))
    before, after = old.splitlines(), new.splitlines()
    common = lines_in_common(before, after, work)
    return "\n".join(marked_lines(before, after, common)) if before != after else ""


_HUNK = re.compile(r"@@ -(\d{1,7})(?:,\d{1,7})? \+(\d{1,7})(?:,\d{1,7})? @@")


def head_of_edit(edit: str, recorded: str) -> str:
    """The line with ``@@`` for a diff of an edit, from the first part of the recorded diff. Empty if their
    first changed lines differ.
    """
    head = _HUNK.match(recorded)
    changed, known = _first_change(edit.split("\n")), _first_change(recorded.split("\n")[1:])
    if head is None or known is None or changed is None or changed[1] != known[1]:
        return ""
    before = known[0] - changed[0]
    lines = edit.split("\n")
    counts = [sum(not line.startswith(mark) for line in lines) for mark in "+-"]
    starts = [int(head[1]) + before, int(head[2]) + before]
    return f"@@ -{starts[0]},{counts[0]} +{starts[1]},{counts[1]} @@" if min(starts) > 0 else ""


def _first_change(lines: list[str]) -> tuple[int, str] | None:
    """The number of lines before the first changed line, and this line."""
    changes = ((index, line) for index, line in enumerate(lines) if line[:1] in ("+", "-"))
    return next(changes, None)


def _marked(mark: str, text: str) -> str:
    """The text with a mark before each line, in one pass: the lines of a long text take a gigabyte."""
    text = text.removesuffix("\n")
    return mark + text.replace("\n", f"\n{mark}") if text else ""
