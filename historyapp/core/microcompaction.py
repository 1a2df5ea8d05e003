"""Which tool results Claude Code cleared from its requests without a record.

Versions before 2.1.17 replace old results with a placeholder when a request becomes large. The transcript
does not say so. The rule uses their own estimate of a text: four characters for each token. It applies once
in each of two sessions of the corpus (versions 2.1.5 and 2.0.76): it removes 37,600 and 36,100 tokens, and
our count of the request then differs from the report by 276 and 1,175 tokens.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from historyapp.core.entries import ToolResult, text_of

STARTS = 135_000
"""Results are cleared once the last request and its output have more tokens: the window of 200,000 minus an
output of 32,000 and a margin of 33,000."""
KEPT = 40_000
"""Estimated tokens of results that stay."""
MIN_CLEARED = 20_000
"""Nothing is cleared if it would save fewer estimated tokens."""
RECENT = 3
"""The newest results, which always stay."""
PLACEHOLDER = 8
"""Tokens of the text that replaces a result."""
_TOOLS = frozenset({"Read", "Bash", "Grep", "Glob", "WebSearch", "WebFetch", "Edit", "Write"})
_FIRST, _FIRST_WITHOUT = (1, 0, 68), (2, 1, 17)
"""The first version with the rule, by the release notes, and the first one of the corpus that does not apply
it."""
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})")
_CHARACTERS = 4


class ClearableResult(NamedTuple):
    """A result that Claude Code may clear."""

    position: int
    estimate: int
    """Its tokens by Claude Code's estimate."""
    tokens: int
    """Its tokens by our tokenizer."""


def clearable_tokens(results: Sequence[ToolResult], version: str) -> int | None:
    """The tokens of results by Claude Code's estimate; None if this version never clears one of them."""
    match = _VERSION.match(version)
    if match is None or not _FIRST <= tuple(map(int, match.groups())) < _FIRST_WITHOUT:
        return None
    texts = [
        text_of(result.outputs) or result.reason or "" for result in results if result.tool_name in _TOOLS
    ]
    return sum(len(text) for text in texts) // _CHARACTERS if texts else None


def results_to_clear(results: Sequence[ClearableResult], sent: int) -> Sequence[ClearableResult]:
    """The results that Claude Code clears before its next request, oldest first.

    Args:
        results: those in the context that were not cleared yet, oldest first.
        sent: tokens of the last request and its output.
    """
    if sent <= STARTS:
        return ()
    left = sum(result.estimate for result in results)
    cleared = []
    for result in results[:-RECENT]:
        if left <= KEPT:
            break
        left -= result.estimate
        cleared.append(result)
    return cleared if sum(result.estimate for result in cleared) >= MIN_CLEARED else ()
