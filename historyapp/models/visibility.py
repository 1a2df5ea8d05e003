"""Which parts of a session a share link shows: with or without takes and people's texts."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from historyapp.core.output_facts import MAX_NAMES
from historyapp.core.person_tools import asks_person

if TYPE_CHECKING:
    from historyapp.models.episodes import Episode

HIDDEN = "(hidden)"
"""Shown instead of a result that may contain a person's text."""
OF_THE_AGENT = ("thought", "answer", "call", "result")
"""Fields of :data:`historyapp.core.searchable.FIELDS` that agents and their tools wrote."""


@dataclass(frozen=True, slots=True)
class Visibility:
    takes: bool = True
    """Whether takes are shown."""
    inputs: bool = True
    """Whether inputs, system instructions, summaries, reviews and other texts of people are shown."""
    is_shared: bool = True
    """Whether the reader uses a share link, and so may see no other session."""


EVERYTHING = Visibility(is_shared=False)


def hides_results(row: "Episode") -> bool:
    """Whether a step's results may contain a person's text: feedback, or an answer to a question."""
    by_agent = row.status in ("success", "error", "answered") and not row.unpaired
    return not by_agent or any(map(asks_person, row.tool_names)) or _has_unknown_names(row.tool_names)


def _has_unknown_names(tool_names: list[str]) -> bool:
    """Whether a row may lack names of tools, or their ends."""
    return len(tool_names) >= MAX_NAMES or any(name.endswith("…") for name in tool_names)


def without_hidden_previews(row: "Episode") -> "Episode":
    """The row without previews of people's texts."""
    row.input_preview = ""
    if hides_results(row):
        row.result_preview, row.error_line = row.result_preview and HIDDEN, row.error_line and HIDDEN
    return row
