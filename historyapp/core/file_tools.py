"""What a tool does with the file that its call names, by the words of the tool's name."""

import re
from functools import lru_cache
from typing import Literal

FileToolUse = Literal["read", "edit", "delete", "other"]

_EXACT: dict[str, FileToolUse] = {
    "cat": "read",
    "find": "read",
    "get": "read",
    "glob": "read",
    "head": "read",
    "ls": "read",
    "stat": "read",
    "tail": "read",
    "tree": "read",
    "append": "edit",
    "mkdir": "edit",
    "save": "edit",
    "touch": "edit",
    "mv": "delete",
    "rm": "delete",
    "rmdir": "delete",
    "unlink": "delete",
}
_BEGINNINGS: dict[str, FileToolUse] = {
    "list": "read",
    "load": "read",
    "open": "read",
    "read": "read",
    "show": "read",
    "view": "read",
    "create": "edit",
    "edit": "edit",
    "insert": "edit",
    "replace": "edit",
    "update": "edit",
    "write": "edit",
    "delete": "delete",
    "move": "delete",
    "remove": "delete",
    "rename": "delete",
}
"""Beginnings of words, as in ``readfile``. The words above are too short or too common for that."""
_FILES = {"", "file", "files", "folder", "dir", "directory", "path", "to"}
"""Words after a verb of deletion that do not say a part of a file."""
_WORD = re.compile("[a-z]+")
_MAX_NAME = 100
"""Characters of a name that are read."""


def use_of_file(name: str) -> FileToolUse:
    """What the first word of a tool's name that is known says; ``delete`` also for a move.

    >>> use_of_file("deleteFile"), use_of_file("delete_lines")
    ('delete', 'edit')
    """
    return _use_of(name[-_MAX_NAME:])


@lru_cache(maxsize=1000)
def _use_of(name: str) -> FileToolUse:
    words = _WORD.findall(name.rpartition("__")[2].lower())  # a name of MCP begins with the server's
    for number, word in enumerate(words):
        use, rest = _EXACT.get(word), ""
        for beginning, use_of_beginning in _BEGINNINGS.items():
            if use is None and word.startswith(beginning):
                use, rest = use_of_beginning, word.removeprefix(beginning)
        if use == "delete" and not {rest, *words[number + 1 :]} <= _FILES:
            return "edit"  # such as delete_lines and remove_unused_imports
        if use:
            return use
    return "other"
