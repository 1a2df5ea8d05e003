"""Amounts: numbers in a tool call that say how much or how long, so that they need no origin."""

import re
from collections.abc import Iterator
from typing import Any

from historyapp.core.entries import ToolCall, UseTool
from historyapp.core.identifiers import identifiers

_IS_ID = re.compile(r"(?:^|_)(?:id|ids|number|numbers)$|(?:Id|Ids|Number|Numbers)$")
"""The name of an argument whose number identifies something, such as ``pull_number``."""
_RANGE = r"\d{1,9}(?:, ?[+~]?\d{1,9}|,\$)?[pdq]"
_AMOUNT = re.compile(
    rf"\bsed (?:-[A-Za-z]{{1,3}} ){{0,3}}['\"]?{_RANGE}(?:; ?{_RANGE}){{0,20}}(?!\w)"
    r"|\b(?:head|tail) (?:-[nc] ?)?[-+]?\d{1,9}(?!\w)"
    r"|\b(?:yield_time_ms|max_output_tokens|timeout_ms|timeout)[\"']?: ?\d{1,9}(?!\w)"
)
"""Lines that ``sed``, ``head`` and ``tail`` show, and limits of a command that a script starts."""


def amounts_in(tool_call: ToolCall | UseTool) -> set[str]:
    """The identifiers of a tool call that occur in it only as amounts: numbers that are whole values of
    arguments, and ranges of lines."""
    names, amounts = set[str](), set[str]()
    for text, is_amount in _texts(tool_call.arguments):
        if is_amount:
            amounts.update(identifiers(text))
        else:
            names.update(identifiers(_AMOUNT.sub(" ", text)))
            found = "\n".join([match[0] for match in _AMOUNT.finditer(text)])
            amounts.update(name for name in identifiers(found) if name[0].isdigit())
    return amounts - names


def _texts(value: Any) -> Iterator[tuple[str, bool]]:
    """Each text in a JSON value. A number that identifies nothing is an amount."""
    pending = [("", value)]
    while pending:
        key, item = pending.pop()
        if isinstance(item, str):
            yield item, False
        elif isinstance(item, dict):
            pending.extend(item.items())
        elif isinstance(item, (list, tuple)):
            pending.extend((key, each) for each in item)
        elif isinstance(item, (int, float)) and not isinstance(item, bool):
            yield str(item), not _IS_ID.search(key)
