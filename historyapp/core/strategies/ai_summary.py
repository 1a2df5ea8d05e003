"""One summary with key points for several steps, written by the model as JSON and validated."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from historyapp.core.quoting import DATA_NOTE
from historyapp.core.strategies.base import Material, Resources, Strategy, SummaryDraft, SummaryPrompt
from historyapp.core.strategies.prompts import (
    UnusableAnswer,
    bare_answer,
    check_content,
    complete_checked,
    quote_steps,
)
from historyapp.core.strategies.shortening import shorten
from historyapp.core.strategies.simple_extract import extract_steps
from historyapp.core.strategies.user_words import compose_summary, user_words

_OUTPUT = 4_000  # tokens
_MAX_ERRORS = 3

TASK = "Summarise these steps of an AI agent's work for the same agent, which will go on without seeing them."
"""The default task. A session or project can replace it (``summary_instruction``)."""
_ANSWER = (
    "Answer with one JSON object: `summary`: what was done and found, in a few sentences; `goal`: what the "
    "agent is after; `decisions`: what was decided and why; `identifiers`: every path, file, function, id, "
    "version, URL and number that later steps may need, exactly as written; `errors`: each with `error`, "
    "whether it was `solved`, and `how`; `open_questions`: what is still to be done or found out. Use "
    "empty lists where there is nothing; invent nothing.\n\n" + DATA_NOTE
)
INSTRUCTION = f"{TASK} {_ANSWER}"


def _require_all(schema: dict[str, Any]) -> None:
    """Makes the schema ask the model for every field. Answers without some fields are accepted too."""
    schema |= {"required": list(schema["properties"]), "additionalProperties": False}
    for field in schema["properties"].values():
        field.pop("default", None)


class AgentError(BaseModel):
    model_config = ConfigDict(extra="ignore", json_schema_extra=_require_all)

    error: str
    solved: bool = False
    how: str = ""


class RangeAnswer(BaseModel):
    model_config = ConfigDict(extra="ignore", json_schema_extra=_require_all)

    summary: str
    goal: str = ""
    decisions: list[str] = []
    identifiers: list[str] = []
    errors: list[AgentError] = []
    open_questions: list[str] = []


SCHEMA = RangeAnswer.model_json_schema()


def write(material: Material, resources: Resources) -> SummaryDraft:
    """One summary of all steps; an extract if there is no model."""
    words = user_words(material)
    if resources.complete is None:
        return compose_summary(words, resources.max_length, extract_steps(material.episodes, resources))
    instruction = f"{resources.instruction}\n\n{_ANSWER}" if resources.instruction else INSTRUCTION
    quoted = quote_steps(material, resources, instruction)
    prompt = SummaryPrompt(instruction, quoted, _OUTPUT, SCHEMA)
    answer = complete_checked(prompt, resources, lambda text: _parse(text, quoted, resources.max_length))
    points = list(_points(answer))
    listed = "\n".join(f"- {point}" for point in points)
    return compose_summary(
        words, resources.max_length, lambda room: _within_room(answer.summary.strip(), listed, room), points
    )


def _parse(answer: str, material: str, max_length: int) -> RangeAnswer:
    """The parsed answer.

    Raises:
        UnusableAnswer: if the answer does not fit the schema, or its summary cannot be used.
    """
    text = bare_answer(answer, max_length)
    check_content(text, material)
    try:
        parsed = RangeAnswer.model_validate_json(text[text.find("{") : text.rfind("}") + 1] or text)
    except ValidationError as invalid:
        # pydantic's messages quote the answer, so they are not used.
        errors = invalid.errors(include_url=False, include_input=False, include_context=False)[:_MAX_ERRORS]
        fields = ((".".join(map(str, error["loc"])) or "the whole", error["type"]) for error in errors)
        listed = "; ".join(f"{field}: {kind.replace('_', ' ')}" for field, kind in fields)
        raise UnusableAnswer(f"was not the requested JSON object ({listed})") from None
    check_content(parsed.summary, material)
    return parsed


def _points(answer: RangeAnswer) -> Iterator[str]:
    if answer.goal.strip():
        yield f"Goal: {_line(answer.goal)}"
    yield from (f"Decided: {_line(text)}" for text in answer.decisions if text.strip())
    if names := [name for text in answer.identifiers if (name := _line(text))]:
        yield f"Names: {', '.join(dict.fromkeys(names))}"
    for error in answer.errors:
        if error.error.strip():
            how = f": {_line(error.how)}" if error.how.strip() else ""
            yield f"Error ({'solved' if error.solved else 'not solved'}{how}): {_line(error.error)}"
    yield from (f"Open: {_line(text)}" for text in answer.open_questions if text.strip())


def _line(text: str) -> str:
    return " ".join(text.split())


def _within_room(summary: str, listed: str, room: int) -> str:
    """The summary and its points. If both do not fit, the summary gets at least half of the room."""
    if len(summary) + len(listed) + 1 <= room or not listed:
        return f"{summary}\n{listed}" if listed else summary
    shortened = shorten(summary, max(room // 2, room - len(listed) - 1))
    return f"{shortened}\n{shorten(listed, max(0, room - len(shortened) - 1))}".strip()


AI_SUMMARY = Strategy(
    name="ai_summary",
    title="Summary with key points",
    description=(
        "A model turns several steps into one summary with goal, decisions, names, errors and open "
        "questions. Each batch takes one request. Without a model, Playhead makes an extract."
    ),
    covers="batch",
    uses_model=True,
    write=write,
    takes_instruction=True,
    instruction_tokens=220,
    answer_tokens=400,
)
