"""Shortens what a step is about, for lists: the end of a long path, and a command without its folder."""

import re
from collections import Counter
from collections.abc import Iterable

_LONG_PATH = re.compile(r"^(?:[A-Za-z]:)?[/\\]+(?:[^/\\\s]+([/\\]+))+(?=[^/\\\s]+[/\\]+[^/\\\s]+)")
_ENTERED_FOLDERS = re.compile(
    r"""(?:cd (?!-)(?:"[^"]{1,200}"|'[^']{1,200}'|[^\s;&|"'`()<>\\]{1,200})"""
    r"(?: &&|;)? (?=[^\s;&|<>])(?!\d>)){1,3}"
)
"""The folders that a command line enters first, with its lines joined by spaces."""
_CD_ERROR = re.compile(r"\bcd:(?:[0-9]{1,9}:)? ")
"""What shells write before the reason why they did not enter a folder. zsh writes the number of the line."""


def with_short_path(text: str) -> str:
    """The text with only the end of a long path with which it begins."""
    return _LONG_PATH.sub(lambda folders: f"…{folders[1]}", text)


def short_target(target: str) -> str:
    """A step's target without the folder that a command line enters first, and with only the end of a long
    path at its beginning. A line that only enters a folder stays."""
    entered = _ENTERED_FOLDERS.match(target)
    return with_short_path(target[entered.end() :] if entered else target)


def target_of_step(target: str, error_line: str) -> str:
    """A step's short target; with the folder that its command enters if that failed."""
    return with_short_path(target) if _CD_ERROR.search(error_line) else short_target(target)


def short_targets(targets: Iterable[str]) -> dict[str, str]:
    """By target its short form, see :func:`short_target`. Commands that differ only in folders keep them."""
    shorts = {target: short_target(target) for target in targets}
    counts = Counter(shorts.values())
    return {
        target: short if counts[short] == 1 else with_short_path(target) for target, short in shorts.items()
    }
