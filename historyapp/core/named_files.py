"""Whether a tool call names a file, decided from the call's text as searches read it."""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import attrgetter

from historyapp.core.call_subjects import COMMANDS, FOLDERS, PATCHED_FILE, PATHS
from historyapp.core.command_files import (
    MAX_COMMAND,
    MAX_PARSED,
    changes_folder,
    files_used,
    joined,
    may_use_files,
)
from historyapp.core.searchable import Passage, lowered
from historyapp.core.text import MAX_READ

_MAX_FOLDER = 4_000
"""Characters of a folder that are read."""
_MIN_NAME = 3
"""Characters of a name by which blocks of text are found."""
_LINE = 2
"""What a line with the name counts towards :data:`MAX_PARSED`."""
_ARGUMENTS = frozenset((*PATHS, "paths", "files"))


def is_named(path: str, file: str) -> bool:
    """Whether a path begins or ends with ``file``, or contains it as whole names of folders and files.

    Args:
        file: in lower case, with slashes.
    """
    path = lowered(path.strip()).replace("\\", "/")
    return path.startswith(file) or path.endswith(file) or f"/{file.strip('/')}/" in f"/{path}/"


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
    """Finds the tool calls that name a file: an argument or a patch names it, or a command line reads, writes
    or deletes it.

    Args:
        file: its path, or the beginning or the end of the path, in any case.
    """

    def __init__(self, file: str) -> None:
        self._file = lowered(file).replace("\\", "/")
        self._text = lowered(text_in_calls(file)).strip()
        self.parsed = 0
        """Characters of the command lines that were parsed. A line of another text counts as
        :data:`_LINE`."""

    def first_calls(self, entry_passages: Iterable[Passage]) -> Iterator[Passage]:
        """The first call of each entry that names the file.

        An entry with more than :data:`MAX_PARSED` characters of command lines is read only to there.
        """
        for _, passages in groupby(entry_passages, attrgetter("position")):
            limit = self.parsed + MAX_PARSED
            calls = (passage for passage in passages if passage.field == "call")
            found = next((passage for passage in calls if self._is_in(passage.text, limit)), None)
            if found is not None:
                yield found

    def _is_in(self, call_text: str, limit: int) -> bool:
        """
        Args:
            call_text: see :func:`historyapp.core.searchable.passages`.
        """
        folded = lowered(call_text)
        if self._text not in folded:
            return False
        paths = chain(self._used_by_commands(call_text, limit), self._in_lines(call_text, folded, limit))
        return any(is_named(path, self._file) for path in paths)

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
                yield used.file
                if folder:
                    yield joined(folder, used.file)

    def _in_lines(self, call_text: str, folded: str, limit: int) -> Iterator[str]:
        """The paths in arguments and patches, in lines that contain the text."""
        end = -1
        while (at := folded.find(self._text, end + 1)) >= 0 and self.parsed < limit:
            start, end = call_text.rfind("\n", 0, at) + 1, call_text.find("\n", at)
            end = len(call_text) if end < 0 else end
            self.parsed += _LINE
            if path := _path_in(call_text[start:end]):
                yield path


def _path_in(line: str) -> str:
    name, separator, value = line.partition(": ")
    if separator and name in _ARGUMENTS:
        return value
    for text in (line, value):  # the first line of a patch follows the name of its argument
        prefix = next((prefix for prefix in PATCHED_FILE if text.startswith(prefix)), "")
        if prefix:
            return text.removeprefix(prefix)
    return ""
