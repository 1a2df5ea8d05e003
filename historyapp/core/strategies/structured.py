"""Without a model: one row for each step with its tool, target, outcome and facts, as JSON or as a table."""

import json
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from historyapp.core.episodes import Episode
from historyapp.core.excerpts import one_line
from historyapp.core.identifiers import identifiers, texts_in
from historyapp.core.results import returned_text
from historyapp.core.strategies.base import Material, Means, Strategy, Written
from historyapp.core.strategies.composing import composed
from historyapp.core.strategies.facts import facts_of
from historyapp.core.strategies.judged import judged_fields
from historyapp.core.strategies.said import SHARE, words_of
from historyapp.core.strategies.shortening import clip
from historyapp.core.strategies.simple_extract import extracted
from historyapp.core.strategies.sizes import own_texts, saves

Style = Literal["json", "table"]
LONGEST_TARGET = 120
LONGEST_OUTCOME = 240
LONGEST_FACT = 200
MOST_FACTS = 12
_COLUMNS = ("step", "tool", "target", "outcome", "facts")
_SHORTENINGS = (8, 5, 3, 1, 0)
"""Facts for each step, tried in turn where all are too many."""


class StructuredOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    style: Style = Field("json", description="`json` or a Markdown `table`.")


def write(material: Material, means: Means) -> Written:
    """All steps as rows. Where there is no room, facts go first, then the oldest rows; it says how many.

    Where the steps are shorter than their rows an extract of them takes the table's place.
    """
    options = means.options if isinstance(means.options, StructuredOptions) else StructuredOptions()
    rows = [_row(episode, means) for episode in material.episodes]
    words = words_of(material)
    own = [text for episode in material.episodes for text in own_texts(episode)]
    if not saves(_shown(rows, [], 0, options.style), own, means.count):
        return composed(words, means.max_length, extracted(material.episodes, means))
    if options.style == "table":
        return composed(words, means.max_length, lambda room: _fitted(rows, [], room, "table"))
    said = [clip(text, max(1, int(means.max_length * SHARE) // len(words) - 8)) for text in words]
    text = _fitted(rows, said, means.max_length, "json")
    return Written(text if len(text) <= means.max_length else clip(text, means.max_length))


def _row(episode: Episode, means: Means) -> dict[str, Any]:
    """``step, tool, target, outcome, facts``: texts on one line each."""
    output = episode.output
    calls = output.tool_calls or ((output.use_tool,) if output.use_tool else ())
    arguments = " ".join(text for call in calls for text in texts_in(call.arguments))
    failed = [result for result in episode.results if result.status != "success"]
    reason = one_line(" ".join(map(returned_text, failed)), LONGEST_OUTCOME)
    named = identifiers(arguments[: 4 * LONGEST_TARGET])
    return {
        "step": episode.number,
        "tool": one_line(", ".join(dict.fromkeys(call.name for call in calls)), LONGEST_TARGET) or "answer",
        "target": one_line(" ".join(named) or arguments, LONGEST_TARGET),
        "outcome": f"{episode.status}: {reason}" if reason else episode.status,
        "facts": _facts(episode, means),
    }


def _facts(episode: Episode, means: Means) -> list[str]:
    """Judged fields, then lines that tell how it ended, then names, then the first lines."""
    fields = [f"{label}: {text}" for label, text in judged_fields(episode, means.language).items()]
    lines = facts_of(episode, means.language).lines
    told = [*fields, *(fact.text for fact in lines if fact.vital)]
    told += [name for fact in lines if not fact.vital for name in fact.names]
    if len(told) < 2:
        told += [fact.text for fact in lines[:2]]
    return [one_line(text, LONGEST_FACT) for text in dict.fromkeys(told)][:MOST_FACTS]


def _fitted(rows: Sequence[dict[str, Any]], said: Sequence[str], room: int, style: Style) -> str:
    shown = _shown(rows, said, 0, style)
    for most in _SHORTENINGS:
        if len(shown) <= room:
            return shown
        rows = [{**row, "facts": row["facts"][:most]} for row in rows]
        shown = _shown(rows, said, 0, style)
    left_out = 0
    while len(shown) > room and left_out < len(rows):
        left_out += max(1, (len(rows) - left_out) // 8)
        shown = _shown(rows[left_out:], said, left_out, style)
    return shown if len(shown) <= room else _shown([], [], len(rows), style)


def _shown(rows: Sequence[dict[str, Any]], said: Sequence[str], left_out: int, style: Style) -> str:
    if style == "json":
        told: dict[str, Any] = {"user": list(said)} if said else {}
        told |= {"left_out": left_out} if left_out else {}
        return json.dumps({**told, "steps": list(rows)}, ensure_ascii=False, separators=(", ", ": "))
    lines = [_cells(_COLUMNS), _cells(["---"] * len(_COLUMNS))]
    lines += [_cells([_cell(row[column]) for column in _COLUMNS]) for row in rows]
    if left_out:
        lines.append(f"[{left_out} older {'step' if left_out == 1 else 'steps'} left out]")
    return "\n".join(lines)


def _cells(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _cell(value: Any) -> str:
    text = "; ".join(value) if isinstance(value, list) else str(value)
    return text.replace("\n", " ").replace("|", "\\|")


STRUCTURED = Strategy(
    name="structured",
    title="Table of steps",
    description=(
        "One row for each step of a batch: tool, target, outcome and facts, as JSON or a table. Needs no "
        "model and costs nothing."
    ),
    covers="batch",
    asks_model=False,
    write=write,
    options=StructuredOptions,
)
