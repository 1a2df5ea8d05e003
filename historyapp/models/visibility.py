"""What a share link shows of a session: all of it, or no takes, or no text that people wrote."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from historyapp.models.episodes import Episode

_ASKERS = frozenset(
    (
        "askuserquestion",
        "ask_user",
        "ask_followup_question",
        "request_user_input",
        "ask_human",
        "ask_question",
    )
)
"""Tools, in lower case, whose results are what a person answered."""
OF_THE_AGENT = ("thought", "answer", "call", "result")
"""Fields of :data:`historyapp.core.searchable.FIELDS` that agents and their tools wrote."""


@dataclass(frozen=True, slots=True)
class Visibility:
    takes: bool = True
    """What rewinds cut off."""
    inputs: bool = True
    """Inputs, system instructions, summaries, reviews and other text that people may have written."""
    is_shared: bool = True
    """Whether the reader came by a share link: to them there is nothing but this session."""


EVERYTHING = Visibility(is_shared=False)


def asks_person(tool_names: list[str]) -> bool:
    """Whether a result of a step may be what a person answered."""
    return any(name.rpartition("__")[2].lower() in _ASKERS for name in tool_names)


def hides_results(row: "Episode") -> bool:
    """Whether results of a step may have text of a person: feedback, or an answer to a question."""
    by_agent = row.status in ("success", "error", "answered") and not row.unpaired
    return not by_agent or asks_person(row.tool_names)


def without_people(row: "Episode") -> "Episode":
    """The row without previews of what people wrote."""
    row.input_preview = ""
    if hides_results(row):
        row.result_preview = row.error_line = ""
    return row
