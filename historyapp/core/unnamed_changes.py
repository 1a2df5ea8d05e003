"""Whether a command line may change files that its words do not name.

``git stash`` and ``git rebase`` change whatever files they find, ``git checkout -- .`` and ``rm -r src`` all
files in a folder, and the files of ``rm *.log`` depend on the folder's content. What other programs change,
such as formatters, is unknown and not looked for. :mod:`historyapp.core.command_files` names the files of the
other commands.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from historyapp.core.command_files import plain_file, program_words
from historyapp.core.program_arguments import (
    arguments_written,
    changes_in_place,
    has_ending,
    names_git_restores,
    targets_of,
)

_MARKS = ("git ", "rm ", "mv ", "cp ", "sed ", "perl ", "patch", "find ", "xargs ")
"""Most command lines contain none of these and end here."""
_TEMPORARY = ("/tmp/", "/var/tmp/", "$TMPDIR", "/dev/")  # noqa: S108 names in commands, not files of ours
"""Beginnings of names whose files do not belong to the work."""
_CONFLICTING = {"am", "cherry-pick", "merge", "pull", "rebase", "revert", "stash"}
"""Commands of git that fail because of conflicts, after they have changed files."""
_STASH_READS = {"clear", "create", "drop", "list", "show", "store"}
_RESETS = {"--hard", "--keep", "--merge"}
_APPLY_READS = {"--cached", "--check", "--numstat", "--stat", "--summary"}
_NEW_BRANCHES = {"-b", "-B", "-c", "-C", "--create", "--force-create", "--orphan"}
_GIT_VALUES = {"-C", "-c", "--git-dir", "--work-tree", "--namespace"}
"""Options of git whose value is the next word."""
_NESTED = {"rm", "mv", "cp", "sed", "perl", "truncate", "unlink"}
"""Programs that ``find`` and ``xargs`` run for files that they list."""
_LISTED = "*"
"""Stands for these files, whose names are unknown."""
_XARGS_VALUES = {"-a", "-d", "-E", "-I", "-L", "-n", "-P", "-s"}
"""Options of ``xargs`` whose value is the next word."""
_PERL_IN_PLACE = re.compile(r"-[0-9aclnpsSTtUuWwX]{0,10}i")
"""Other letters, such as the ``I`` in ``-Ilib``, take the rest of the word as their value."""


def changes_further_files(command: str, *, has_failed: bool = False) -> bool:
    """Whether a command line may change files that its words do not name.

    Args:
        has_failed: whether it ended with an error. The last program then counts only if it leaves files
            changed when it fails.
    """
    if not any(mark in command for mark in _MARKS):
        return False
    programs = program_words(command)
    last = len(programs) - 1
    for number, words in enumerate(programs):
        program, arguments = words[0].rpartition("/")[2], words[1:]
        may_have_done_nothing = has_failed and number == last
        if may_have_done_nothing and not (program == "git" and _git_command(arguments)[0] in _CONFLICTING):
            continue
        if (changes := _PROGRAMS.get(program)) and changes(arguments):
            return True
    return False


def _options(arguments: Sequence[str]) -> list[str]:
    return [word for word in arguments if word.startswith("-") and len(word) > 1]


def _names(arguments: Sequence[str]) -> list[str]:
    return [word for word in arguments if word and not word.startswith("-")]


def _has_unknown(names: Sequence[str]) -> bool:
    """Whether one of these names is no plain name of a file, such as ``*.log`` and ``$OUT``."""
    return any(not plain_file(name) and not name.startswith(_TEMPORARY) for name in names)


def _is_recursive(arguments: Sequence[str]) -> bool:
    return any(
        option in ("--recursive", "--archive") or (option[1] != "-" and not {*"rRa"}.isdisjoint(option))
        for option in _options(arguments)
    )


def _git_command(arguments: Sequence[str]) -> tuple[str, Sequence[str], bool]:
    """The command, its arguments, and whether it runs in another folder."""
    at, is_elsewhere = 0, False
    while at < len(arguments) and arguments[at].startswith("-"):
        option = arguments[at]
        is_elsewhere = is_elsewhere or option.startswith(("-C", "--work-tree"))
        at += 2 if option in _GIT_VALUES else 1
    return (arguments[at], arguments[at + 1 :], is_elsewhere) if at < len(arguments) else ("", (), False)


def _git(arguments: Sequence[str]) -> bool:
    command, words, is_elsewhere = _git_command(arguments)
    names, options = _names(words), {*_options(words)}
    match command:
        case "stash":
            return not names or names[0] not in _STASH_READS
        case "rebase" | "merge" | "cherry-pick" | "revert" | "am":
            return "--quit" not in options
        case "pull":
            return True
        case "reset":
            return not options.isdisjoint(_RESETS)
        case "clean":
            return not any(
                option == "--dry-run" or (option[1] != "-" and "n" in option) for option in options
            )
        case "apply":
            return options.isdisjoint(_APPLY_READS)
        case "checkout" | "switch" | "restore":
            if not words or not options.isdisjoint(_NEW_BRANCHES):
                return False
            named = names_git_restores([command, *words])
            return named is None or is_elsewhere or _has_unnamed(named)
        case "rm":
            return "--cached" not in options and (is_elsewhere or _is_recursive(words) or _has_unknown(names))
        case "mv":
            return is_elsewhere or _moves_unnamed(words)
    return False


def _has_unnamed(paths: Sequence[str]) -> bool:
    """Whether one of these paths may be a folder, or is no plain name."""
    return any(not plain_file(path) or not has_ending(path) for path in paths)


def _moves_unnamed(arguments: Sequence[str]) -> bool:
    names = _names(arguments)
    if names and all(name.startswith(_TEMPORARY) for name in names):
        return False
    targets = targets_of(_options(arguments), names)
    return not targets or _has_unknown([*names[:-1], *targets])


def _rm(arguments: Sequence[str]) -> bool:
    names = [name for name in _names(arguments) if not name.startswith(_TEMPORARY)]
    return bool(names) and (_is_recursive(arguments) or _has_unknown(names))


def _cp(arguments: Sequence[str]) -> bool:
    names = _names(arguments)
    return len(names) > 1 and not names[-1].startswith(_TEMPORARY) and _is_recursive(arguments)


def _sed(arguments: Sequence[str]) -> bool:
    return changes_in_place(arguments) and _has_unknown(arguments_written("sed", [*arguments]))


def _perl(arguments: Sequence[str]) -> bool:
    return any(map(_PERL_IN_PLACE.match, arguments))


def _patch(arguments: Sequence[str]) -> bool:
    return "--dry-run" not in arguments


def _find(arguments: Sequence[str]) -> bool:
    is_run = any(
        option in ("-exec", "-execdir", "-ok") and _is_change(arguments[number + 1 :])
        for number, option in enumerate(arguments)
    )
    return "-delete" in arguments or is_run


def _xargs(arguments: Sequence[str]) -> bool:
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        at += 2 if arguments[at] in _XARGS_VALUES else 1
    return _is_change(arguments[at:])


def _is_change(words: Sequence[str]) -> bool:
    """Whether these words run a program that changes the files that follow it."""
    at = 1 if words[:1] == ["sudo"] else 0
    program, arguments = "".join(words[at : at + 1]).rpartition("/")[2], words[at + 1 :]
    if program == "sed":
        return changes_in_place(arguments)
    if program == "git":
        return _git([*arguments, _LISTED])
    return _perl(arguments) if program == "perl" else program in _NESTED


_PROGRAMS: Mapping[str, Callable[[Sequence[str]], bool]] = {
    "git": _git,
    "rm": _rm,
    "mv": _moves_unnamed,
    "cp": _cp,
    "sed": _sed,
    "perl": _perl,
    "patch": _patch,
    "find": _find,
    "xargs": _xargs,
}
