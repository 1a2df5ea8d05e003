"""Which words of one program name the files that it reads, writes and deletes."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal

Use = Literal["read", "write", "delete", "delete_if_known"]
_IN_PLACE = re.compile(r"-[Ernsz]{0,5}i|--in-place")
READERS = {
    "cat": frozenset[str](),
    "less": frozenset[str](),
    "more": frozenset[str](),
    "head": frozenset(("-n", "-c", "--lines", "--bytes")),
    "tail": frozenset(("-n", "-c", "--lines", "--bytes")),
    "nl": frozenset(("-b", "-d", "-f", "-h", "-i", "-l", "-n", "-s", "-v", "-w")),
}
"""Programs that print files, with their options whose value is the next word."""
_SED_SCRIPT = re.compile(r"-[nErsz]{0,5}[ef]|--expression|--file")
"""Options of ``sed`` before a script; without them the script is the first name."""


def _options_and_names(arguments: list[str]) -> tuple[list[str], list[str]]:
    options = [word for word in arguments if word.startswith("-") and len(word) > 1]
    return options, [word for word in arguments if word and not word.startswith("-")]


def arguments_read(program: str, arguments: list[str]) -> list[str]:
    """The names of the files that a program prints."""
    options, names = _options_and_names(arguments)
    if program == "sed":
        return [] if changes_in_place(options) else _files_of_sed(options, names)
    if program not in READERS:
        return []
    valued = READERS[program]
    words = pairwise(("", *arguments))
    return [word for option, word in words if option not in valued and not word.startswith(("-", "+"))]


def _files_of_sed(options: list[str], names: list[str]) -> list[str]:
    scripts = sum(bool(_SED_SCRIPT.fullmatch(option)) for option in options)
    return names[max(1, scripts) :]


def arguments_written(program: str, arguments: list[str]) -> list[str]:
    """The names of the files that a program writes."""
    options, names = _options_and_names(arguments)
    if program == "tee":
        return names
    if program == "git" and names[:1] in (["checkout"], ["restore"]) and arguments[0] == names[0]:
        return [name for name in names_git_restores(arguments) or () if has_ending(name)]
    if program == "sed" and changes_in_place(options):
        return _files_of_sed(options, names)
    if program in ("cp", "mv"):
        return targets_of(options, names)
    if program == "git" and names[:1] == ["mv"]:
        return targets_of(options, names[1:])
    outputs = [word for option, word in pairwise(arguments) if option in ("--out", "--output")]
    outputs += [option.partition("=")[2] for option in options if option.startswith(("--out=", "--output="))]
    return [name for name in outputs if has_ending(name)]


def has_ending(name: str) -> bool:
    """Whether the last name of a path has an ending, as names of folders rarely have."""
    return "." in name.rpartition("/")[2].strip(".")


def changes_in_place(arguments: Iterable[str]) -> bool:
    """Whether ``sed`` with these arguments changes its files."""
    return any(map(_IN_PLACE.match, arguments))


def targets_of(options: Sequence[str], names: Sequence[str]) -> list[str]:
    """The files to which ``cp`` and ``mv`` write; none if one may be a folder."""
    if len(names) < 2 or not all(option in ("-f", "-p", "-v") for option in options):
        return []
    *sources, target = names
    if target.endswith("/") or len(sources) > 1:
        targets = [f"{target.rstrip('/')}/{source.rstrip('/').rpartition('/')[2]}" for source in sources]
        return targets if len(sources) == 1 or all(map(has_ending, targets)) else []
    return [target] if has_ending(target) else []


def names_git_restores(arguments: Sequence[str]) -> list[str] | None:
    """The paths whose files ``git checkout`` and ``git restore`` bring back; None if the words do not say
    which of them are paths.

    Args:
        arguments: from ``checkout`` or ``restore`` on.
    """
    command, *words = arguments
    if command == "restore" and {"-S", "--staged"} & {*words} and not {"-W", "--worktree"} & {*words}:
        return []
    if "--" in words:
        return words[words.index("--") + 1 :]
    if command != "restore":
        return None
    pairs = pairwise(("", *words))
    return [word for option, word in pairs if option not in ("-s", "--source") and not word.startswith("-")]


def arguments_deleted(program: str, arguments: list[str]) -> Iterator[tuple[Use, str]]:
    """The names of the files that a program deletes or moves."""
    options, names = _options_and_names(arguments)
    if program == "git":
        program, names = names[0] if names else "", names[1:]
        if program not in ("rm", "mv") or "--cached" in options:
            return
    if program == "mv" and targets_of(options, names):
        yield from (("delete_if_known", name) for name in names[:-1])  # it may be a folder
    elif program in ("rm", "unlink"):
        use: Use = "delete_if_known" if any(option != "-v" for option in options) else "delete"
        yield from ((use, name.rstrip("/")) for name in names)
