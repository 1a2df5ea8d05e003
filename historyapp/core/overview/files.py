"""The figures of one file of a run."""

import posixpath
import re
from dataclasses import dataclass, field

from historyapp.core.text import preview

MAX_STEPS = 8
"""The number of first steps that are kept of each tool, file and command."""
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[/\\]")


@dataclass(slots=True)
class FileFigures:
    """What tool calls and command lines did with a file."""

    absolute: str = ""
    """Its absolute path, if its name or the folder of a command says it."""
    reads: int = 0
    """Reads by tool calls and by commands that print a file, see :mod:`historyapp.core.command_files`."""
    edits: int = 0
    added: int = 0
    """Lines according to recorded diffs, otherwise to the arguments of edits, like ``removed``."""
    removed: int = 0
    commands: int = 0
    """Commands of a shell that write it."""
    diffs: int = 0
    """Diffs of the agent's changes, printed by commands, that contain it."""
    diff_added: int = 0
    """Lines of the newest of these diffs, like ``diff_removed``."""
    diff_removed: int = 0
    deleted_in: int = 0
    """The step that deleted or moved it; 0 if none did, or if it was read or written again later."""
    steps: list[int] = field(default_factory=list)
    edit_steps: list[int] = field(default_factory=list)
    """Steps that edit or delete it, write it by a command or print a diff of it."""
    read_before: int = -1
    """The number of compactions before its newest read; -1: it was not read."""
    again: list[int] = field(default_factory=list)
    """Steps that read it again after a compaction."""

    @property
    def is_edited(self) -> bool:
        """Whether a call edits it, a command writes it, or a diff of the agent's changes contains it."""
        return bool(self.edits or self.commands or self.diffs)

    @property
    def is_changed(self) -> bool:
        """Whether it is edited or deleted."""
        return self.is_edited or self.deleted_in > 0

    def add_read(self, number: int, compactions: int) -> None:
        """Adds a read in a step after this many compactions."""
        self.reads += 1
        self.deleted_in = 0
        if -1 < self.read_before < compactions:
            add_step_number(self.again, number)
        self.read_before = compactions

    def add_step(self, number: int, *, is_change: bool) -> None:
        """Adds a step that uses it."""
        add_step_number(self.steps, number)
        if is_change:
            add_step_number(self.edit_steps, number)

    def add_deletion(self, number: int) -> None:
        """Adds a step that deletes or moves it."""
        self.add_step(number, is_change=True)
        self.deleted_in = number


def absolute_path(path: str, folder: str) -> str:
    """The absolute path of a file that is named in a folder; empty if it is unknown."""
    if _ABSOLUTE.match(path):
        return path
    return preview(posixpath.normpath(posixpath.join(folder, path))) if folder.startswith("/") else ""


def name_of(files: dict[str, FileFigures], path: str, folder: str) -> str:
    """The name under which a file is listed: commands name it from their folder, edits often by its absolute
    path. Two files of the same name in different folders have names of their own.

    Args:
        folder: from which ``path`` is named; empty if unknown.
    """
    absolute = absolute_path(path, folder)
    if (known := files.get(path)) is not None:
        if not absolute or known.absolute == absolute:
            return path
        if not known.absolute and not any(file.absolute == absolute for file in files.values()):
            known.absolute = absolute
            return path
        path = absolute
    if not absolute or path in files:
        return path
    name = next((name for name, file in files.items() if file.absolute == absolute), "")
    if name == absolute and path != absolute:  # the shorter name is in both
        files[path] = files.pop(name)
        return path
    return name or path


def delete_known(files: dict[str, FileFigures], path: str, folder: str, number: int) -> None:
    """Adds the deletion of a file or of all files in a folder, of those that earlier calls used."""
    absolute = absolute_path(path, folder)
    inside, inside_absolute = f"{path}/", f"{absolute}/"
    for name, file in files.items():
        if file.deleted_in:
            continue
        if absolute and file.absolute:
            is_deleted = file.absolute == absolute or file.absolute.startswith(inside_absolute)
        else:
            is_deleted = name == path or name.startswith(inside)
        if is_deleted:
            file.add_deletion(number)


def add_step_number(steps: list[int], number: int) -> None:
    """Adds a step to a list of the first steps."""
    if len(steps) < MAX_STEPS and (not steps or steps[-1] != number):
        steps.append(number)
