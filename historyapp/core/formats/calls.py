"""Tool calls as providers accept them: legal ids and names, arguments as an object."""

import re
from typing import Any

_NAME = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME = 64


class CallIds:
    """Ids of tool calls that a provider accepts: unique, at most ``max_length`` characters."""

    def __init__(self, max_length: int) -> None:
        self._legal = re.compile(rf"[A-Za-z0-9_-]{{1,{max_length}}}")
        self._used: set[str] = set()
        self._numbers: dict[int, int] = {}
        """The newest number that was tried at a position."""

    def of(self, position: int, id: str) -> str:
        """The id itself if it is legal and unused, otherwise one that depends only on the position."""
        legal, number = id, self._numbers.get(position, 0)
        while legal in self._used or not self._legal.fullmatch(legal):
            number += 1
            legal = f"call_{position}_{number}"
        self._numbers[position] = number
        self._used.add(legal)
        return legal


def legal_name(name: str) -> str:
    """A tool's name as providers accept it."""
    return _NAME.sub("_", name[:_MAX_NAME]) or "tool"


def object_of(arguments: Any) -> dict[str, Any]:
    """Arguments as the object that providers require. Anything else is put into an object under ``raw``."""
    return arguments if isinstance(arguments, dict) else {"raw": arguments}
