"""How many lines an edit adds and removes, from its arguments alone."""

from collections.abc import Mapping
from typing import Any, NamedTuple

_OLD, _NEW = ("old_string", "old_str"), ("new_string", "new_str")
_WHOLE = ("content", "contents", "file_text", "new_source", "insert_text")
_PATCHES = ("patch", "diff", "input")
_MOST_EDITS = 100


class LineCount(NamedTuple):
    added: int = 0
    removed: int = 0


def edited_lines(arguments: Any) -> LineCount:
    """The lines that an edit adds and removes.

    Of replaced text, common lines at both ends do not count. A file that is written whole counts as added,
    because the call does not say what was there before.

    Args:
        arguments: of a call whose kind is ``edit``: an object, or the text that the model wrote.
    """
    if isinstance(arguments, str):
        return _of_patch(arguments)
    if not isinstance(arguments, Mapping):
        return LineCount()
    edits = arguments.get("edits")
    several = edits[:_MOST_EDITS] if isinstance(edits, list) else [arguments]
    counts = [_of_edit(edit) for edit in several if isinstance(edit, Mapping)]
    return LineCount(sum(count.added for count in counts), sum(count.removed for count in counts))


def _of_edit(edit: Mapping[str, Any]) -> LineCount:
    old, new = _text(edit, _OLD), _text(edit, _NEW)
    if old or new:
        return _between(old.splitlines(), new.splitlines())
    if whole := _text(edit, _WHOLE):
        return LineCount(len(whole.splitlines()))
    return _of_patch(_text(edit, _PATCHES))


def _text(arguments: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((value for name in names if isinstance(value := arguments.get(name), str) and value), "")


def _between(old: list[str], new: list[str]) -> LineCount:
    start = _equal_lines(old, new)
    old, new = old[start:], new[start:]
    end = _equal_lines(old[::-1], new[::-1])
    return LineCount(len(new) - end, len(old) - end)


def _equal_lines(some: list[str], others: list[str]) -> int:
    """How many lines at the beginning are equal."""
    pairs = enumerate(zip(some, others, strict=False))
    return next((n for n, (one, other) in pairs if one != other), min(len(some), len(others)))


def _of_patch(patch: str) -> LineCount:
    lines = patch.splitlines()
    return LineCount(
        sum(line.startswith("+") and not line.startswith("+++") for line in lines),
        sum(line.startswith("-") and not line.startswith("---") for line in lines),
    )
