"""Without a model: one row for each step with its tool, target, outcome and facts, as JSON or as a table."""

import json
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from historyapp.core.entries import StoredModel
from historyapp.core.episodes import Episode
from historyapp.core.identifiers import identifiers, texts_in
from historyapp.core.results import returned_text
from historyapp.core.strategies.base import Material, Resources, Strategy, SummaryDraft
from historyapp.core.strategies.facts import facts_of
from historyapp.core.strategies.lines import line_of
from historyapp.core.strategies.reviews import review_fields
from historyapp.core.strategies.shortening import clip
from historyapp.core.strategies.simple_extract import extract_steps, is_smaller, step_texts
from historyapp.core.strategies.user_words import SHARE, compose_summary, user_words

Style = Literal["json", "table"]
MAX_TARGET = 120
MAX_OUTCOME = 240
MAX_FACT = 200
MAX_FACTS = 12
_COLUMNS = ("step", "tool", "target", "outcome", "facts")
_SHORTENINGS = (8, 5, 3, 1, 0)
"""The maximum numbers of facts of each step, tried in this order until the rows fit."""


class StructuredOptions(StoredModel):
    style: Style = Field("json", description="`json` or a Markdown `table`.")


def write(material: Material, resources: Resources) -> SummaryDraft:
    """A row for each step. If the room is too small, facts are removed first, then the oldest rows, and a
    note counts these. If the steps are shorter than their rows, an extract replaces the rows.
    """
    options = resources.options if isinstance(resources.options, StructuredOptions) else StructuredOptions()
    rows = [_row(episode, resources) for episode in material.episodes]
    words = user_words(material)
    originals = [text for episode in material.episodes for text in step_texts(episode)]
    if not is_smaller(_written(rows, [], 0, options.style), originals, resources.count):
        return compose_summary(words, resources.max_length, extract_steps(material.episodes, resources))
    if options.style == "table":
        return compose_summary(
            words, resources.max_length, lambda room: _within_room(rows, [], room, "table")
        )
    quoted = [clip(text, max(1, int(resources.max_length * SHARE) // len(words) - 8)) for text in words]
    text = _within_room(rows, quoted, resources.max_length, "json")
    return SummaryDraft(text if len(text) <= resources.max_length else clip(text, resources.max_length))


def _row(episode: Episode, resources: Resources) -> dict[str, Any]:
    output = episode.output
    calls = output.tool_calls or ((output.use_tool,) if output.use_tool else ())
    arguments = " ".join(text for tool_call in calls for text in texts_in(tool_call.arguments))
    failed = [result for result in episode.results if result.status != "success"]
    reason = line_of(" ".join(map(returned_text, failed)), MAX_OUTCOME)
    names = identifiers(arguments[: 4 * MAX_TARGET])
    target = line_of(" ".join(names) or arguments, MAX_TARGET)
    return {
        "step": episode.number,
        "tool": line_of(", ".join(dict.fromkeys(tool_call.name for tool_call in calls)), MAX_TARGET)
        or "answer",
        "target": target,
        "outcome": f"{episode.status}: {reason}" if reason else episode.status,
        "facts": _facts(episode, resources, set(identifiers(target))),
    }


def _facts(episode: Episode, resources: Resources, shown: set[str]) -> list[str]:
    """Review fields, then lines about the outcome, then names. If these are few, the first lines too.

    Names in ``shown`` are not repeated.
    """
    fields = [f"{label}: {text}" for label, text in review_fields(episode, resources.language).items()]
    lines = facts_of(episode, resources.language).lines
    facts = [*fields, *(fact.text for fact in lines if fact.vital)]
    facts += [name for fact in lines if not fact.vital for name in fact.names]
    if len(facts) < 2:
        facts += [fact.text for fact in lines[:2]]
    chosen = [text for text in dict.fromkeys(facts) if text not in shown]
    return [line_of(text, MAX_FACT) for text in chosen][:MAX_FACTS]


def _within_room(rows: Sequence[dict[str, Any]], words: Sequence[str], room: int, style: Style) -> str:
    text = _written(rows, words, 0, style)
    for max_facts in _SHORTENINGS:
        if len(text) <= room:
            return text
        rows = [{**row, "facts": row["facts"][:max_facts]} for row in rows]
        text = _written(rows, words, 0, style)
    left_out = 0
    while len(text) > room and left_out < len(rows):
        left_out += max(1, (len(rows) - left_out) // 8)
        text = _written(rows[left_out:], words, left_out, style)
    return text if len(text) <= room else _written([], [], len(rows), style)


def _written(rows: Sequence[dict[str, Any]], words: Sequence[str], left_out: int, style: Style) -> str:
    if style == "json":
        head: dict[str, Any] = {"user": list(words)} if words else {}
        head |= {"left_out": left_out} if left_out else {}
        return json.dumps({**head, "steps": list(rows)}, ensure_ascii=False, separators=(", ", ": "))
    lines = [_cells(_COLUMNS), _cells(["---"] * len(_COLUMNS))]
    for row in rows:
        cells = ("; ".join(row[name]) if name == "facts" else str(row[name]) for name in _COLUMNS)
        lines.append(_cells([cell.replace("\n", " ").replace("|", "\\|") for cell in cells]))
    if left_out:
        lines.append(f"[{left_out} older {'step' if left_out == 1 else 'steps'} left out]")
    return "\n".join(lines)


def _cells(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


STRUCTURED = Strategy(
    name="structured",
    title="Table of steps",
    description=(
        "One row for each step of a batch: tool, target, outcome and facts, as JSON or a table. Needs no "
        "model and costs nothing."
    ),
    covers="batch",
    uses_model=False,
    write=write,
    options=StructuredOptions,
)
