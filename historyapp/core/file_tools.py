"""What a tool does with the file that its call names, by the words of the tool's name."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Literal

FileToolUse = Literal["read", "edit", "delete", "other"]

_VERBS: dict[str, FileToolUse] = {
    **dict.fromkeys(("cat", "find", "glob", "head", "ls", "stat", "tail", "tree"), "read"),
    **dict.fromkeys(("get", "fetch", "list", "load", "open", "read", "show", "view", "look"), "read"),
    **dict.fromkeys(("analyse", "analyze", "describe", "display", "inspect", "print"), "read"),
    **dict.fromkeys(("append", "create", "edit", "insert", "mkdir", "modify", "overwrite", "patch"), "edit"),
    **dict.fromkeys(("put", "replace", "rewrite", "save", "touch", "update", "write"), "edit"),
    **dict.fromkeys(("delete", "move", "mv", "remove", "rename", "rm", "rmdir", "unlink"), "delete"),
}
"""Not those that may mean a file or its copy, such as ``copy`` and ``download``."""
_ENDINGS = {"er", "or", "r", "s", "to", "image", "images"}
"""What may directly follow a verb, as in ``reader``, like the words of :data:`_FILES` in ``readfile``."""
_FILES = {
    *("file", "files", "folder", "folders", "dir", "dirs", "directory", "directories", "path", "paths"),
    *("document", "documents", "note", "notes", "notebook", "notebooks"),
}
_OF_TOOLS = {
    *("", "er", "or", "r", "s", "tool", "v", "to", "trash", "tree", "item", "items"),
    *("all", "many", "multiple", "recursive", "recursively", "safe", "safely"),
}
"""Words after a verb of deletion that name no object."""
_PARTS = {
    "block",
    "cell",
    "column",
    "comment",
    "content",
    "header",
    "line",
    "range",
    "row",
    "section",
    "text",
}
"""Words that name a part of a file even beside one of :data:`_FILES`, without the ``s`` of the plural."""
_PREPOSITIONS = {"from", "in", "of"}
"""Words between a part and its file, as in ``delete_row_from_file``."""
_WORD = re.compile("[A-Z]?[a-z]+|[A-Z]+")
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
    words = [word.lower() for word in _WORD.findall(name.rpartition("__")[2])]  # MCP: after the server's name
    for number, word in enumerate(words):
        use, rest = _verb(word)
        if use == "delete" and not _is_of_whole_file([rest, *words[number + 1 :]]):
            return "edit"
        if use != "other":
            return use
    return "other"


def _is_of_whole_file(words: Sequence[str]) -> bool:
    """Whether the words after a verb of deletion name a file or nothing.

    Unknown words, as in ``remove_unused_imports``, name a part: a file that exists is not shown as deleted.
    """
    named = {*takewhile(lambda word: word not in _PREPOSITIONS, words)}
    is_part = any(word.removesuffix("s") in _PARTS for word in named)
    return _OF_TOOLS.issuperset(words) or (not is_part and not _FILES.isdisjoint(named))


def _verb(word: str) -> tuple[FileToolUse, str]:
    """What the verb at the beginning of a word does, and the rest of the word. Not that of ``showcase``."""
    for end in range(len(word), 1, -1):
        use, rest = _VERBS.get(word[:end], "other"), word[end:]
        if use != "other" and (not rest or rest in _FILES or rest in _ENDINGS):
            return use, rest
    return "other", ""
