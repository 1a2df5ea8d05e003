"""Questions to a person: each question with its options, with marks at the chosen ones, and the answer."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dashboard.rendering.blocks import MARKDOWN, TASKS
from dashboard.tools.base import CallBlocks, Card, RecordedCall, ToolView, answer_blocks, further_values
from dashboard.tools.web import prose
from historyapp.core.person_tools import asks_person
from historyapp.core.text import MAX_READ, preview

_QUESTION, _OPTIONS = ("question", "prompt"), ("options", "choices", "follow_up")
_SEVERAL = ("multiSelect", "multi_select", "allowMultiple")
_LABELS, _REMARKS = ("label", "text", "value"), ("description", "detail", "preview")
_MAX_QUESTIONS = 20


class _Question(NamedTuple):
    text: str
    title: str
    options: list[tuple[str, str]]
    """Label and remark of each."""
    is_several: bool
    """Whether more than one may be chosen."""


def fits(tool_call: RecordedCall) -> bool:
    return bool(_questions(tool_call))


def draw(tool_call: RecordedCall, make: CallBlocks) -> Card:
    questions = _questions(tool_call)
    card = Card(title=preview(questions[0].text))
    card.facts = [f"{len(questions)} questions"] if len(questions) > 1 else []
    for number, question in enumerate(questions):
        label = f"{question.title} · several answers" if question.is_several else question.title
        card.request.append(make.request(f"question{number}", question.text, MARKDOWN, label))
        if question.options:
            # Claude Code's answer quotes each question; other answers are the chosen labels.
            quoted = tool_call.text.partition(f'"{question.text}"="')[2]
            answer = quoted.partition('"')[0] if quoted else tool_call.text.strip()
            # Several answers are split once: a long text would be split again for each option.
            several = answer.split(", ") if question.is_several and len(answer) <= MAX_READ else ()
            chosen = {answer, *several}
            lines = [_line(option, is_chosen=option[0] in chosen) for option in question.options]
            card.request.append(make.request(f"options{number}", "\n".join(lines), TASKS))
    card.values = further_values(tool_call, make, "questions", *_QUESTION, *_OPTIONS, *_SEVERAL)
    card.response = answer_blocks(tool_call, make, lambda text, key: prose(make, text, key))
    return card


def _questions(tool_call: RecordedCall) -> list[_Question]:
    """The questions of a call; empty if it has none, or if one of them has another shape."""
    listed = tool_call.fields.get("questions")
    if not isinstance(listed, list):
        single = _question(tool_call.fields) if asks_person(tool_call.name) else None
        return [single] if single else []
    if not 0 < len(listed) <= _MAX_QUESTIONS:
        return []
    field_names = {*_QUESTION, *_OPTIONS, *_SEVERAL, "header", "id"}
    if not all(isinstance(fields, Mapping) and field_names.issuperset(fields) for fields in listed):
        return []
    questions = [_question(fields) for fields in listed]
    return [question for question in questions if question] if all(questions) else []


def _question(fields: Mapping[str, Any]) -> _Question | None:
    text = _text(fields, _QUESTION)
    choices: Any = next((fields[name] for name in _OPTIONS if fields.get(name) is not None), [])
    options = [_option(choice) for choice in choices] if isinstance(choices, list) else [None]
    multiple = next((fields[name] for name in _SEVERAL if name in fields), False)
    if not text.strip() or not all(options) or not isinstance(multiple, bool):
        return None
    titles = [name for name in (fields.get("header"), fields.get("id")) if isinstance(name, str) and name]
    return _Question(text, " · ".join(titles), [option for option in options if option], multiple)


def _option(option: Any) -> tuple[str, str] | None:
    """Label and remark of an option; None if it has another shape."""
    if isinstance(option, str) and option.strip():
        return option, ""
    if not isinstance(option, Mapping) or not {*_LABELS, *_REMARKS}.issuperset(option):
        return None
    label = _text(option, _LABELS)
    remarks = [text for name in _REMARKS if isinstance(text := option.get(name), str) and text]
    return (label, " – ".join(remarks)) if label.strip() else None


def _text(fields: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((value for name in names if isinstance(value := fields.get(name), str) and value), "")


def _line(option: tuple[str, str], *, is_chosen: bool) -> str:
    """An option in one line, with a mark if it was chosen."""
    label, remark = option
    text = f"{label} – {remark}" if remark else label
    return ("(x) " if is_chosen else "( ) ") + " ".join(text.split())


QUESTION = ToolView(name="question", fits=fits, draw=draw)
