"""The files that a command line reads, writes and deletes, and the files of a diff that it prints.

Read: arguments of ``cat``, ``head``, ``tail``, ``nl``, ``less``, ``more`` and ``sed``. Written: targets of
redirections, ``tee``, ``sed -i``, ``cp``, ``mv`` and ``--out``, and what ``git checkout --`` and
``git restore`` bring back. Deleted: arguments of ``rm`` and what ``mv`` moves.

This is not a shell parser. A file is left out rather than guessed: what a program writes without such words,
names with variables or patterns, folders, and targets after the first :data:`MAX_COMMAND` characters are
unknown. :mod:`historyapp.core.unnamed_changes` finds the command lines that may change such files.
"""

import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise, takewhile
from typing import NamedTuple

from historyapp.core.edited_lines import LineCount
from historyapp.core.process_memory import cached_while_busy
from historyapp.core.program_arguments import (
    READERS,
    Use,
    arguments_deleted,
    arguments_read,
    arguments_written,
)
from historyapp.core.text import MAX_READ, preview

MAX_FILES = 20
MAX_COMMAND = 2_000
"""Characters of a command line that are read, without the texts of here-documents."""
MAX_PARSED = 100_000
"""Characters of the command lines that are parsed of one step, or by one search. 50 of the longest lines take
0.1 to 0.3 s."""
_MAX_LINES = 2_000
_WRITERS = (">", "tee", "sed", "cp ", "mv ", "--out", "checkout ", "restore ")
"""Most command lines contain none of these and end here."""
_MARKS = (*_WRITERS, "cat ", "head ", "tail ", "nl ", "less ", "more ", "rm ", "unlink ")
_HEREDOC = re.compile(r"<<-?\s{0,5}([\"']?)(\w{1,60})\1")
_OPERATORS = re.compile(r"[();<>|&]{1,20}")
"""Operators as :mod:`shlex` reads them: several without spaces between them are one word."""
_OPERATOR = re.compile(r"[<>]\(|[<>|&]{1,20}|;{1,20}|[()]")
_ENDS = {";", "&&", "||", "|", "&", "|&", ";;"}
_OR = ["||"]
"""Stands for the operator among the words of programs."""
_FOLDER_CHANGERS = ("cd", "pushd", "popd", "chdir")
_SUBSTITUTIONS = {"<(", ">("}
_REDIRECTION = re.compile(r"&?[<>]{1,3}[&|]?")
_OUTPUTS = {">", ">>", ">|"}
"""The redirections that name a file that is written."""
_DESCRIPTOR = re.compile(r"(?<![^\s;&|()])[0-9](?=[<>])")
"""A number that belongs to a redirection: ``2> x``, but not ``2 > x``."""
_MARK = "\0"
"""Follows such a number, because :mod:`shlex` drops the space that tells the two apart."""
_PREFIX_WORDS = {
    "sudo",
    "builtin",
    "time",
    "env",
    "nice",
    "command",
    "exec",
    "do",
    "then",
    "else",
    "if",
    "elif",
    "while",
    "until",
    "!",
    "{",
}
_TESTS = {"[", "[[", "test", "let", "expr"}
"""Programs whose ``>`` compares."""
_FINDERS = {*READERS, "sed", "rm", "unlink", "mv", "fatal"}
"""What error lines about missing files begin with; git writes ``fatal``."""
_DIFF = "diff --git a/"
_BLANK = 40
"""Characters in which the beginning of a diff is looked for."""
SUBMIT = "submit"
"""The command and the tool of SWE-agent that prints the agent's changes."""
_SUBMISSION = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""The word by which mini-swe-agent recognises the command that submits."""
_UNKNOWN = frozenset("$`*?{}<>|&;()\n\\\"'=: ")
"""Characters that a plain name of a file does not contain."""


class FileUse(NamedTuple):
    """What a command line does with a file. ``delete_if_known``: the file may not exist, or be a folder."""

    use: Use
    file: str


def files_used(command: str, *, has_failed: bool = False) -> tuple[FileUse, ...]:
    """The files that a command line reads, writes and deletes, in the order in which its programs last do it,
    at most :data:`MAX_FILES` of each use.

    Args:
        has_failed: whether it ended with an error. The last program may then have done nothing.

    With ``||`` only writes count, because the line goes on if a file is missing.
    """
    if not may_use_files(command):
        return ()
    parts = _parts(_without_heredocs(command))
    hides_errors = _OR in parts
    programs = [part for part in parts if part != _OR]
    uses: dict[FileUse, None] = {}
    for words in programs[: len(programs) - has_failed]:
        for use, name in _uses(words):
            if (file := plain_file(name)) and (use == "write" or not hides_errors):
                used = FileUse(use, file)
                uses.pop(used, None)
                uses[used] = None
    return tuple(_first_of_each(uses))


def may_use_files(command: str) -> bool:
    """Whether a command line contains one of the words that use files, so that it has to be parsed."""
    return any(mark in command for mark in _MARKS)


def program_words(command: str) -> list[list[str]]:
    """The words of each program of a command line, from its name on, without redirections."""
    parts = map(_without_prefixes, _parts(_without_heredocs(command)))
    return [words for part in parts if part != _OR and (words := _without_redirections(part))]


def _without_redirections(words: list[str]) -> list[str]:
    kept: list[str] = []
    for previous, word in pairwise(("", *words)):
        if word.startswith("#"):  # a comment
            break
        if not _REDIRECTION.fullmatch(previous) and not _REDIRECTION.fullmatch(word):
            kept.append(word)
    return [word for word in kept if not word.endswith(_MARK)]


def changes_folder(command: str) -> bool:
    """Whether a program of a command line may change the folder, so that later names of files are relative to
    another one."""
    if not any(word in command for word in _FOLDER_CHANGERS):
        return False
    programs = map(_without_prefixes, _parts(_without_heredocs(command)))
    return any(words and words[0] in (*_FOLDER_CHANGERS, "eval") for words in programs)


def joined(folder: str, file: str) -> str:
    """The path of a file that a command in a folder names."""
    return preview(posixpath.normpath(posixpath.join(folder, file)))


def _first_of_each(uses: Iterable[FileUse]) -> Iterator[FileUse]:
    """At most :data:`MAX_FILES` of each use."""
    counts = Counter[Use]()
    for used in uses:
        counts[used.use] += 1
        if counts[used.use] <= MAX_FILES:
            yield used


def unreadable_names(error_line: str) -> frozenset[str]:
    """The words of an error line of a program that reads or deletes files: among them the file's name.

    >>> "old.py" in unreadable_names("rm: cannot remove 'old.py': No such file or directory")
    True
    >>> unreadable_names("a.ts(3,1): error TS2322")
    frozenset()
    """
    words = re.findall(r"[^\s:'\"‘’]+", error_line)
    if not words or words[0].rpartition("/")[2] not in _FINDERS:
        return frozenset()
    return frozenset(word.removeprefix("./") for word in words)


def files_written(command: str, *, has_failed: bool = False) -> tuple[str, ...]:
    """The files that a command line writes, as it names them, each once, at most :data:`MAX_FILES`."""
    if not any(mark in command for mark in _WRITERS):
        return ()
    return tuple([file for use, file in files_used(command, has_failed=has_failed) if use == "write"])


def _without_heredocs(command: str) -> str:
    """The command line without the texts of here-documents and comments."""
    if "<<" not in command and "#" not in command:
        return command[:MAX_COMMAND]
    lines: list[str] = []
    end = ""
    size = 0
    for line in command.split("\n", _MAX_LINES)[:_MAX_LINES]:
        if end:
            end = "" if line.strip() == end else end
            continue
        if line.lstrip().startswith("#"):
            continue
        if "<<<" not in line and (match := _HEREDOC.search(line)):
            end = match[2]
            line = _HEREDOC.sub("", line, count=1)
        lines.append(line)
        size += len(line) + 1
        if size > MAX_COMMAND:
            break
    return "\n".join(lines)[:MAX_COMMAND]


@cached_while_busy(128)  # the lines of a step are read for their folders and then for their files
def _parts(text: str) -> list[list[str]]:
    """The words of each program of a command line; empty if quotes do not match. Callers must not change it.

    Programs in parentheses come before the program that reads or writes them, as in ``tee >(cat) x.py``,
    where ``>(`` stands for them.
    """
    marked = _DESCRIPTOR.sub(rf"\g<0>{_MARK}", text.replace("\\\n", " ").replace("\n", " ; "))
    words = shlex.shlex(marked, posix=True, punctuation_chars=True)
    words.whitespace_split, words.commenters = True, ""
    parts: list[list[str]] = [[]]
    outer: list[list[str]] = []
    try:
        for text in words:
            for word in _OPERATOR.findall(text) if _OPERATORS.fullmatch(text) else (text,):
                if word in _ENDS:
                    parts += [_OR, []] if word == "||" else [[]]
                elif word in _SUBSTITUTIONS:
                    outer.append([*parts.pop(), word])
                    parts.append([])
                elif word == "(":
                    outer.append([])
                    parts.append([])
                elif word == ")":
                    parts.append(outer.pop() if outer else [])
                else:
                    parts[-1].append(word)
    except ValueError:
        return []
    return [part for part in (*parts, *reversed(outer)) if part]


def _without_prefixes(words: list[str]) -> list[str]:
    """The words of a program from its name on."""
    while words and (words[0] in _PREFIX_WORDS or re.fullmatch(r"\w{1,60}=.*", words[0], re.DOTALL)):
        words = words[1:]
    return words


def _uses(words: list[str]) -> Iterator[tuple[Use, str]]:
    """What one program does with the words that name files.

    A program whose output is redirected, or whose errors are hidden, does not show what it reads.
    """
    words = _without_prefixes(words)
    if not words or words[0] in _TESTS:
        return
    arguments: list[str] = []
    descriptor, is_shown = "", True
    for previous, word in pairwise(("", *words)):
        if word.startswith("#"):  # a comment
            break
        if _REDIRECTION.fullmatch(previous):
            if previous in _OUTPUTS and descriptor != "2":  # 2: messages of errors
                yield "write", word
        elif _REDIRECTION.fullmatch(word):
            has_descriptor = previous.endswith(_MARK) and arguments[-1:] == [previous]
            descriptor = arguments.pop()[0] if has_descriptor else ""
            is_shown = is_shown and word == ">&"
        else:
            arguments.append(word)
    program = arguments[0].rpartition("/")[2] if arguments else ""
    if is_shown:
        yield from (("read", name) for name in arguments_read(program, arguments[1:]))
    yield from (("write", name) for name in arguments_written(program, arguments[1:]))
    yield from arguments_deleted(program, arguments[1:])


def plain_file(name: str) -> str:
    """The name as lists show it; empty if it is not a plain name of a file."""
    name = name.removeprefix("./")
    is_number_or_folder = name.isdigit() or name.endswith("/") or not name.strip(".")
    if is_number_or_folder or name.startswith(("/dev/", "-", "~")) or not _UNKNOWN.isdisjoint(name):
        return ""
    return preview(name)


class PrintedPatch(NamedTuple):
    """A file of a diff that a command printed."""

    file: str
    lines: LineCount


def begins_with_diff(text: str) -> bool:
    """Whether an output begins with a diff of git. SWE-agent writes a blank line before it."""
    return text[:_BLANK].lstrip().startswith("diff --git ")


def prints_own_changes(command: str) -> bool:
    """Whether a command line prints the changes of the working tree or submits them.

    ``git diff main`` compares with other versions, whose changes may not be the agent's.
    """
    if command.strip() == SUBMIT or _SUBMISSION in command:
        return True
    if "git diff" not in command:
        return False
    parts = [part for part in _parts(_without_heredocs(command)) if part[:2] == ["git", "diff"]]
    return bool(parts) and all(
        word.startswith("-") or word == "HEAD"
        for part in parts
        for word in takewhile(lambda word: word != "--", part[2:])
    )


def printed_patches(text: str) -> list[PrintedPatch]:
    """The files of a diff of git with which an output begins, and the lines that it adds and removes."""
    patches: list[PrintedPatch] = []
    if not begins_with_diff(text):
        return patches
    for part in f"\n{text[:MAX_READ].lstrip()}".split(f"\n{_DIFF}")[1 : MAX_FILES + 1]:
        lines = part.split("\n")
        file = lines[0].partition(" b/")[2].rstrip("\r")
        if file:
            added = sum(line.startswith("+") and not line.startswith("+++ ") for line in lines)
            removed = sum(line.startswith("-") and not line.startswith("--- ") for line in lines)
            patches.append(PrintedPatch(preview(file), LineCount(added, removed)))
    return patches
