"""Which parts of a session a share link shows: with or without takes and people's texts."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from historyapp.models.episodes import Episode

_QUESTION_TOOLS = frozenset(
    (
        "askuserquestion",
        "ask_user",
        "ask_followup_question",
        "request_user_input",
        "ask_human",
        "ask_question",
    )
)
"""Tools whose results are a person's answers, in lower case."""
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


def asks_person(tool_names: list[str]) -> bool:
    """Whether a step's results may be a person's answers."""
    return any(name.rpartition("__")[2].lower() in _QUESTION_TOOLS for name in tool_names)


def hides_results(row: "Episode") -> bool:
    """Whether a step's results may contain a person's text: feedback, or an answer to a question."""
    by_agent = row.status in ("success", "error", "answered") and not row.unpaired
    return not by_agent or asks_person(row.tool_names)


def without_hidden_previews(row: "Episode") -> "Episode":
    """The row without previews of people's texts."""
    row.input_preview = ""
    if hides_results(row):
        row.result_preview = row.error_line = ""
    return row
