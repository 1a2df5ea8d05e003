"""Several steps as one summary with key points, written by the model as JSON and validated."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from historyapp.core.quoting import DATA_NOTE
from historyapp.core.strategies.asking import (
    Fault,
    ask_twice,
    check_size,
    refuse_nonsense,
    without_fence,
)
from historyapp.core.strategies.base import Material, Means, Prompt, Strategy, Written
from historyapp.core.strategies.composing import composed
from historyapp.core.strategies.said import words_of
from historyapp.core.strategies.shortening import shorten
from historyapp.core.strategies.simple_extract import extracted
from historyapp.core.strategies.telling import told_steps

_OUTPUT = 4_000  # tokens
_FAULTS_TOLD = 3

INSTRUCTION = (
    "Summarise these steps of an AI agent's work for the same agent, which will go on without seeing them. "
    "Answer with one JSON object: `summary`: what was done and found, in a few sentences; `goal`: what the "
    "agent is after; `decisions`: what was decided and why; `identifiers`: every path, file, function, id, "
    "version, URL and number that later steps may need, exactly as written; `errors`: each with `error`, "
    "whether it was `solved`, and `how`; `open_questions`: what is still to be done or found out. Use "
    "empty lists where there is nothing; invent nothing.\n\n" + DATA_NOTE
)


class SolvedOrNot(BaseModel):
    model_config = ConfigDict(extra="ignore", json_schema_extra={"additionalProperties": False})

    error: str
    solved: bool
    how: str

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        return {"solved": False, "how": "", **data} if isinstance(data, dict) else data


class RangeAnswer(BaseModel):
    """What the model is to answer: all fields. An answer without some of them is taken all the same."""

    model_config = ConfigDict(extra="ignore", json_schema_extra={"additionalProperties": False})

    summary: str
    goal: str
    decisions: list[str]
    identifiers: list[str]
    errors: list[SolvedOrNot]
    open_questions: list[str]

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        empty = {"goal": "", "decisions": [], "identifiers": [], "errors": [], "open_questions": []}
        return {**empty, **data} if isinstance(data, dict) else data


SCHEMA = RangeAnswer.model_json_schema()


def write(material: Material, means: Means) -> Written:
    """One summary of all steps; by extraction where there is no model."""
    words = words_of(material)
    if means.ask is None:
        return composed(words, means.max_length, extracted(material.episodes, means))
    told = told_steps(material, means, INSTRUCTION)
    prompt = Prompt(INSTRUCTION, told, _OUTPUT, SCHEMA)
    answer = ask_twice(prompt, means, lambda text: _read(text, told, means.max_length))
    points = list(_points(answer))
    listed = "\n".join(f"- {point}" for point in points)
    return composed(
        words, means.max_length, lambda room: _fitted(answer.summary.strip(), listed, room), points
    )


def _read(answer: str, material: str, longest: int) -> RangeAnswer:
    """Raises ``Fault`` for what is no such object, or says nothing."""
    text = without_fence(check_size(answer, longest))
    refuse_nonsense(text, material)
    try:
        found = RangeAnswer.model_validate_json(text[text.find("{") : text.rfind("}") + 1] or text)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)[:_FAULTS_TOLD]
        told = "; ".join(_told(fault["loc"], fault["type"]) for fault in faults)
        raise Fault(f"was not the JSON object that was asked for ({told})") from None
    refuse_nonsense(found.summary, material)
    return found


def _told(place: tuple[int | str, ...], kind: str) -> str:
    """A fault in our own words: pydantic's messages quote the answer."""
    return f"{'.'.join(map(str, place)) or 'the whole'}: {kind.replace('_', ' ')}"


def _points(answer: RangeAnswer) -> Iterator[str]:
    if answer.goal.strip():
        yield f"Goal: {_line(answer.goal)}"
    yield from (f"Decided: {_line(text)}" for text in answer.decisions if text.strip())
    if names := [name for text in answer.identifiers if (name := _line(text))]:
        yield f"Names: {', '.join(dict.fromkeys(names))}"
    for each in answer.errors:
        if each.error.strip():
            how = f": {_line(each.how)}" if each.how.strip() else ""
            yield f"Error ({'solved' if each.solved else 'not solved'}{how}): {_line(each.error)}"
    yield from (f"Open: {_line(text)}" for text in answer.open_questions if text.strip())


def _line(text: str) -> str:
    return " ".join(text.split())


def _fitted(summary: str, listed: str, room: int) -> str:
    """The points, and of the summary at least a half of the room where both do not fit."""
    if len(summary) + len(listed) + 1 <= room or not listed:
        return f"{summary}\n{listed}" if listed else summary
    told = shorten(summary, max(room // 2, room - len(listed) - 1))
    return f"{told}\n{shorten(listed, max(0, room - len(told) - 1))}".strip()


AI_SUMMARY = Strategy(
    name="ai_summary",
    title="Summary with key points",
    description=(
        "The model turns several steps into one summary with goal, decisions, names, errors and open "
        "questions: one request for each batch. Without a model, an extract."
    ),
    covers="batch",
    asks_model=True,
    write=write,
    instruction_tokens=220,
    answer_tokens=400,
)
