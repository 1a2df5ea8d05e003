"""Finds the programs that a command line runs, and whether they only show existing text.

This is not a shell parser: it skips quoted text and splits the rest where commands end.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Literal

_MAX_COMMAND = 2000
"""Characters of a command line that are read."""
_MAX_PARTS, _MAX_PROGRAMS = 200, 12
_MAX_NAME = 20
_PREFIX_WORDS = {
    "sudo", "time", "env", "nice", "command", "exec", "xargs", "rtk", "timeout", "do", "then", "else",
    "if", "while", "!", "{", "(", "stdbuf", "nohup", "elif", "until",
}  # fmt: skip
"""Words that may precede the name of a program."""
_VIEWERS = {
    "cat", "head", "tail", "sed", "grep", "egrep", "rg", "ag", "awk", "nl", "less", "more", "ls", "find",
    "fd", "tree", "wc", "echo", "printf", "cd", "pwd", "jq", "yq", "sort", "uniq", "cut", "tr", "column",
    "stat", "file", "strings", "xxd", "hexdump", "od", "diff", "cmp", "du", "df", "which", "whereis",
    "type", "date", "basename", "dirname", "realpath", "readlink", "test", "[", "true", "false", "set",
    "export", "bat", "open", "goto", "scroll_down", "scroll_up", "search_file", "search_dir", "find_file",
    "for", "done", "fi", "comm", "tac", "rev", "fold", "env", "printenv", "sleep", "gh", "get-content",
    "select-string", "get-childitem", "cursor", "set_cursors", "decompile", "disassemble",
}  # fmt: skip
_VIEWING_GIT = {
    "diff", "log", "show", "status", "branch", "blame", "grep", "ls-files", "rev-parse", "reflog",
    "remote", "config", "tag", "describe", "shortlog", "cat-file", "merge-base", "rev-list",
    "check-ignore", "ls-tree", "stash",
}  # fmt: skip


def programs_of(command: str) -> tuple[str, ...]:
    """The programs that a command line runs, each once, at most 12; ``git`` with its subcommand."""
    programs: dict[str, None] = {}
    text = _unquoted(command[:_MAX_COMMAND])
    for mark in ("&&", "||", ";", "|", "&"):
        text = text.replace(mark, "\n")
    for part in islice(filter(str.strip, text.split("\n")), _MAX_PARTS):
        name = _program(part.split())
        if name:
            programs[name[:_MAX_NAME]] = None
        if len(programs) == _MAX_PROGRAMS:
            break
    return tuple(programs)


def only_print(programs: Sequence[str]) -> bool:
    """Whether these programs only print existing text, so that an error in their output is not their own.
    False if there are no programs."""
    for program in programs:
        name, _, subcommand = program.partition(" ")
        if not (subcommand in _VIEWING_GIT if name == "git" else name.lower() in _VIEWERS):
            return False
    return bool(programs)


def exit_code_of(command: str) -> Literal["", "last", "all"]:
    """The commands of a line that exit code 0 proves to be successful. Empty if the line ends in a pipe, in
    which an earlier program may have failed, or is too long to be read."""
    text = _unquoted(command[:_MAX_COMMAND]).replace("&&", " ").strip()
    if len(command) >= _MAX_COMMAND or "|" in text.replace(";", "\n").rpartition("\n")[2]:
        return ""
    return "last" if any(mark in text for mark in ";|&\n") else "all"


def _program(words: list[str]) -> str:
    for index, word in enumerate(words):
        if word in _PREFIX_WORDS or "=" in word or word.startswith("-") or word.isdigit():
            continue
        name = word.rpartition("/")[2].lstrip("(")
        if name != "git":
            return name
        arguments = [
            word
            for word in words[index + 1 :]
            if not word.startswith("-") and "/" not in word and "=" not in word
        ]
        return f"git {arguments[0]}" if arguments else name
    return ""


def _unquoted(text: str) -> str:
    """The text with each quoted part replaced by a word, and without ``2>&1``."""
    pieces: list[str] = []
    unread = (
        text.replace("2>&1", "").replace("&>", ">").replace('\\"', "").replace("\\'", "").replace("\\\n", " ")
    )
    while unread:
        quotes = [index for index in (unread.find("'"), unread.find('"')) if index >= 0]
        if not quotes:
            break
        start = min(quotes)
        end = unread.find(unread[start], start + 1)
        if end < 0:
            break
        pieces.append(unread[:start] + "QUOTED")
        unread = unread[end + 1 :]
    return "".join([*pieces, unread])
