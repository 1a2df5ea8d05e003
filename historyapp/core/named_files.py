"""Whether a tool call names a file, decided from the call's text as searches read it."""

from collections.abc import Iterator

from historyapp.core.call_subjects import COMMANDS, FOLDERS, PATCHED_FILE, PATHS
from historyapp.core.command_files import changes_folder, files_used, joined
from historyapp.core.searchable import lowered
from historyapp.core.text import MAX_READ

_MAX_FOLDER = 4_000
"""Characters of a folder that are read."""
_MIN_NAME = 3
"""Characters of a name by which blocks of text are found."""
_ARGUMENTS = frozenset((*PATHS, "paths", "files"))


def is_named(path: str, file: str) -> bool:
    """Whether a path begins or ends with ``file``, or contains it as whole names of folders and files.

    Args:
        file: in lower case, with slashes.
    """
    path = lowered(path.strip()).replace("\\", "/")
    return path.startswith(file) or path.endswith(file) or f"/{file.strip('/')}/" in f"/{path}/"


def names_file(call_text: str, file: str) -> bool:
    """Whether an argument or a patch in a call's text names the file, or a command line reads, writes
    or deletes it.

    Args:
        call_text: see :func:`historyapp.core.searchable.passages`.
        file: in lower case, with slashes.
    """
    return any(is_named(path, file) for path in _paths(call_text))


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


def _paths(call_text: str) -> Iterator[str]:
    lines = f"\n{call_text}"
    folder = next((value for name in FOLDERS if (value := _value_of(lines, name))), "")
    for mark in (f"\n{name}: " for name in COMMANDS):
        if (at := lines.find(mark)) >= 0:
            command = lines[at + len(mark) : at + len(mark) + MAX_READ]
            folder = "" if not folder or changes_folder(command) else folder
            for used in files_used(command):
                yield used.file
                if folder:
                    yield joined(folder, used.file)
    for line in call_text.splitlines():
        name, separator, value = line.partition(": ")
        if separator and name in _ARGUMENTS:
            yield value
            continue
        for text in (line, value):  # the first line of a patch follows the name of its argument
            prefix = next((prefix for prefix in PATCHED_FILE if text.startswith(prefix)), "")
            if prefix:
                yield text.removeprefix(prefix)
                break
