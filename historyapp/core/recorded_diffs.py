"""Diffs that an agent recorded beside the results of its edits. A model never sees them.

They are in the metadata of tool results, in :data:`RECORDED_DIFFS`, by the ids of the tool calls:
``{"added": 7, "removed": 7, "diff": "@@ -1,3 +1,3 @@\\n…"}``. A call that writes a whole file does not say
what was there before, and one that replaces a text does not say where it is.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from historyapp.core.edited_lines import LineCount
from historyapp.core.json import listing, mapping, text
from historyapp.core.line_diff import rewritten_ends

RECORDED_DIFFS = "recorded_diffs"
"""A field of its own: what a request was is read from other metadata, for many entries at once."""
UNCHANGED: dict[str, Any] = {"added": 0, "removed": 0}
"""The stored form of an edit that wrote what the file already contained."""
MAX_DIFF = 20_000
"""Characters. Of a longer diff only the numbers of lines are kept."""
_MAX_HUNKS = 1_000
_MAX_LINES = 10**7


class RecordedDiff(NamedTuple):
    lines: LineCount
    text: str
    """The parts of a unified diff, each below a line with ``@@``; empty if the diff is too long."""


def diff_fields(diff: str) -> dict[str, Any] | None:
    """The stored form of a unified diff of one file; None if the text has no changes."""
    start = 0 if diff.startswith("@@ ") else diff.find("\n@@ ") + 1
    if not diff.startswith("@@ ", start):
        return None
    parts = diff[start:].rstrip("\n")
    lines = parts.split("\n")
    added, removed = (sum(line.startswith(mark) for line in lines) for mark in "+-")
    if not added and not removed:
        return None
    if len(parts) <= MAX_DIFF:
        return {"added": added, "removed": removed, "diff": parts}
    again = rewritten_ends(parts)  # of a diff that is kept, it is counted when the diff is read
    return {"added": added - again, "removed": removed - again}


def diff_of_hunks(hunks: Any) -> str:
    """The unified diff of Claude Code's ``structuredPatch``, a list of parts with their lines."""
    lines: list[str] = []
    for hunk in map(mapping, listing(hunks)[:_MAX_HUNKS]):
        places = [hunk.get(name) for name in ("oldStart", "oldLines", "newStart", "newLines")]
        if not all(type(place) is int for place in places):
            return ""
        lines.append("@@ -{},{} +{},{} @@".format(*places))
        lines += map(text, listing(hunk.get("lines")))
    return "\n".join(lines)


def recorded_diffs(*metadata: Mapping[str, Any]) -> dict[str, RecordedDiff]:
    """The diffs in the metadata of entries, by the ids of the tool calls."""
    found: dict[str, RecordedDiff] = {}
    for diffs in (of_entry[RECORDED_DIFFS] for of_entry in metadata if RECORDED_DIFFS in of_entry):
        for id, fields in mapping(diffs).items():
            added, removed = (mapping(fields).get(name) for name in ("added", "removed"))
            if type(added) is int and type(removed) is int and 0 <= min(added, removed) <= _MAX_LINES:
                shown = text(mapping(fields).get("diff"))
                shown = shown if len(shown) <= MAX_DIFF else ""
                again = min(rewritten_ends(shown), added, removed)
                found[id] = RecordedDiff(LineCount(added - again, removed - again), shown)
    return found
