"""Whether a tool call names a file or its result is a diff of it, decided from the texts of searches."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import attrgetter

from historyapp.core.call_subjects import (
    COMMANDS,
    FOLDERS,
    PATCHED_FILE,
    PATHS,
    SCRIPTS,
    call_subject,
    command_line,
)
from historyapp.core.command_files import (
    MAX_COMMAND,
    MAX_PARSED,
    SUBMIT,
    begins_with_diff,
    changes_folder,
    files_used,
    joined,
    may_use_files,
    printed_patches,
)
from historyapp.core.searchable import Passage, lowered
from historyapp.core.text import MAX_READ

_MAX_FOLDER = 4_000
"""Characters of a folder that are read."""
_KINDS = ("read", "edit", "shell")
"""Kinds of tool calls that act on a file; command lines may write files."""
_MIN_NAME = 3
"""Characters of a name by which blocks of text are found."""
_LINE = 2
"""What a line with the name counts towards :data:`MAX_PARSED`."""
_DIFF_SHARE = 100
"""The characters of a diff that count as one character towards :data:`MAX_PARSED`."""
_CALL_SHARE = 20
"""The same for a call of which only edits are wanted."""
_WINDOW = re.compile(r"^\[File: ([^\n]{1,1000}) \([0-9]{1,9} lines total\)\]", re.MULTILINE)
"""The line above the part of a file that SWE-agent shows after it opened, scrolled or edited the file."""
_WINDOW_HEAD = 2_000
"""Characters of a result in which this line is looked for. The errors of a refused edit are before it."""
_WINDOW_STARTS = ("[File: ", "File updated", "Replaced ", "Your proposed edit")
"""How such a result begins; logs of SWE-agent, which other agents read, begin differently."""
_ARGUMENTS = frozenset((*PATHS, "paths", "files"))
_ARGUMENT = re.compile(r"^(\w{1,40}): ([^\n]{0,4000})", re.MULTILINE)
"""An argument and the first line of its value; also lines of a longer value that look like one."""


def is_named(path: str, file: str) -> bool:
    """Whether a path begins or ends with ``file``, or contains it as whole names of folders and files.

    Args:
        file: in lower case, with slashes.
    """
    path = lowered(path.strip()).replace("\\", "/")
    return path.startswith(file) or path.endswith(file) or f"/{file.strip('/')}/" in f"/{path}/"


def may_act_on_files(kind: str, tools: list[str]) -> bool:
    """Whether a step may act on a file, or show a diff of it. Other steps only mention files.

    Args:
        kind: of its first call; each of several calls may name the file.
    """
    return kind in _KINDS or len(tools) > 1 or tools == [SUBMIT]


def file_in_window(result: str) -> str:
    """The file that SWE-agent shows in a result, or an empty text. Its ``edit`` does not name the file that
    it changes."""
    head = result[:_WINDOW_HEAD]
    match = _WINDOW.search(head) if head.lstrip().startswith(_WINDOW_STARTS) else None
    return match[1] if match else ""


def text_in_calls(file: str) -> str:
    """A text of each call that names the file: the last name of a path, because the folder may be
    apart from it in the call.
    """
    name = file.replace("\\", "/").rpartition("/")[2]
    return name if len(name) >= _MIN_NAME else file


def _value_of(lines: str, name: str) -> str:
    """The value of an argument, if it is one line."""
    mark = f"\n{name}: "
    at = lines.find(mark)
    if at < 0:
        return ""
    start = at + len(mark)
    return lines[start : start + _MAX_FOLDER].partition("\n")[0].strip()


class NamedFile:
    """Finds the tool calls that name a file: an argument or a patch names it, a command line reads, writes or
    deletes it, or the result begins with a diff of git that contains it, or shows it in SWE-agent's window.

    Args:
        file: its path, or the beginning or the end of the path, in any case.
        edits_only: leave out reads and printed diffs.
    """

    def __init__(self, file: str, *, edits_only: bool = False) -> None:
        self._edits_only = edits_only
        self._file = lowered(file).replace("\\", "/")
        self._text = lowered(text_in_calls(file)).strip()
        self.parsed = 0
        """Characters of the command lines that were parsed. A line of another text, a diff, and a call of
        which only edits are wanted count as :data:`_LINE` or more."""
        self.paths: dict[int, str] = {}
        """The path by which a step's call or result names the file, by the number of the step."""
        self.shown = set[int]()
        """The steps whose calls do not name the file, while their results show it in a window. Such a call
        is an edit only if the step is of this kind."""

    def first_calls(self, entry_passages: Iterable[Passage]) -> Iterator[Passage]:
        """The first call, or the first result with a diff, of each entry that names the file.

        Of an entry, texts are read until :attr:`parsed` has grown by :data:`MAX_PARSED`.
        """
        for _, passages in groupby(entry_passages, attrgetter("position")):
            limit = self.parsed + MAX_PARSED
            for passage in passages:
                if (path := self._path_in(passage, limit)) is not None:
                    if passage.field == "result" and passage.step not in self.paths:
                        self.shown.add(passage.step)
                    self.paths.setdefault(passage.step, path)
                    yield passage
                    break

    def is_in(self, target: str, kind: str) -> bool:
        """Whether the target of a call names the file, or that of a command line may.

        Args:
            kind: of the call, see :class:`historyapp.core.call_subjects.CallSubject`.
        """
        return self._text in lowered(target) if kind == "shell" else is_named(target, self._file)

    def _path_in(self, passage: Passage, limit: int) -> str | None:
        """The path by which a passage names the file; see :func:`historyapp.core.searchable.passages`."""
        paths: Iterator[str]
        if passage.field == "result":
            diff = () if self._edits_only else self._in_diff(passage.text, limit)
            paths = chain(diff, [file_in_window(passage.text)])
        elif passage.field == "call" and self._text in (folded := lowered(passage.text)):
            commands = self._used_by_commands(passage.text, limit)
            lines = self._in_lines(passage.text, folded, limit)
            paths = chain(commands, lines, self._in_script(passage.text, limit))
        else:
            return None
        return next((path for path in paths if path and is_named(path, self._file)), None)

    def _in_diff(self, text: str, limit: int) -> Iterator[str]:
        if begins_with_diff(text) and self.parsed < limit and self._text in lowered(text):
            self.parsed += _LINE + min(len(text), MAX_READ) // _DIFF_SHARE
            yield from (patch.file for patch in printed_patches(text))

    def _used_by_commands(self, call_text: str, limit: int) -> Iterator[str]:
        lines = f"\n{call_text}"
        folder = next((value for name in FOLDERS if (value := _value_of(lines, name))), "")
        for mark in (f"\n{name}: " for name in COMMANDS):
            if (at := lines.find(mark)) < 0 or self.parsed >= limit:
                continue
            command = lines[at + len(mark) : at + len(mark) + MAX_READ]
            if self._text not in lowered(f"{folder}\n{command}") or not may_use_files(command):
                continue
            self.parsed += min(len(command), MAX_COMMAND)
            folder = "" if not folder or changes_folder(command) else folder
            for used in files_used(command):
                if self._edits_only and used.use == "read":
                    continue
                yield used.file
                if folder:
                    yield joined(folder, used.file)

    def _in_script(self, call_text: str, limit: int) -> Iterator[str]:
        """The paths in patches and commands of a script for Codex's tools, and in SWE-agent's ``create``."""
        name, _, arguments = call_text.partition("\n")
        is_script = arguments.startswith(SCRIPTS)
        if (is_script or arguments.startswith("command: create ")) and self.parsed < limit:
            self.parsed += min(len(arguments), MAX_COMMAND)
            command = arguments[:MAX_READ] if is_script else {"command": arguments[9 : MAX_COMMAND + 9]}
            subject = call_subject(name, command)
            yield from subject.files if subject.kind == "edit" or not self._edits_only else ()
            if is_script:
                used = files_used(command_line(arguments))
                yield from (one.file for one in used if one.use != "read" or not self._edits_only)

    def _in_lines(self, call_text: str, folded: str, limit: int) -> Iterator[str]:
        """The paths in arguments and patches, in lines that contain the text."""
        end, is_read = -1, False
        if self._edits_only and self.parsed < limit:
            self.parsed += min(len(call_text), MAX_READ) // _CALL_SHARE
            is_read = not _is_edit(call_text)
        while (at := folded.find(self._text, end + 1)) >= 0 and self.parsed < limit:
            start, end = call_text.rfind("\n", 0, at) + 1, call_text.find("\n", at)
            end = len(call_text) if end < 0 else end
            self.parsed += _LINE
            if path := _path_in(call_text[start:end], in_arguments=not is_read):
                yield path


def _is_edit(call_text: str) -> bool:
    """Whether a call changes the file that its arguments name, by the beginnings of its lines."""
    name, _, lines = call_text[:MAX_READ].partition("\n")
    # The first value of each name counts: later lines may belong to a text.
    arguments = {match[1]: match[2] for match in reversed(list(_ARGUMENT.finditer(lines)))}
    return call_subject(name, arguments).kind == "edit"


def _path_in(line: str, *, in_arguments: bool) -> str:
    name, separator, value = line.partition(": ")
    if separator and name in _ARGUMENTS:
        return value if in_arguments else ""
    for text in (line, value):  # the first line of a patch follows the name of its argument
        prefix = next((prefix for prefix in PATCHED_FILE if text.startswith(prefix)), "")
        if prefix:
            return text.removeprefix(prefix)
    return ""
