"""Questions to a person show which options were chosen."""

import pytest

from dashboard.rendering.blocks import Folder
from dashboard.tools import draw_call, view_of
from dashboard.tools.base import CallBlocks, RecordedCall
from historyapp.core.entries import ToolResult
from historyapp.core.text import MAX_READ
from tests.dashboard.tools.samples import COLOURS


def options(arguments: object, answer: str) -> str:
    call = RecordedCall("AskUserQuestion", arguments, ToolResult(status="success", outputs=answer))
    folder = Folder()
    draw_call(call, CallBlocks(folder, 0))
    return folder.blocks["call-0-options0"].text


@pytest.mark.parametrize(
    "answer", ['Your questions have been answered: "Which colour?"="Blue". You can continue.', "Blue"]
)
def test_the_chosen_option_is_marked(answer: str) -> None:
    assert options({"questions": [COLOURS]}, answer) == "( ) Red – like fire\n(x) Blue – like water"


def test_each_of_several_answers_is_marked() -> None:
    several = {**COLOURS, "multiSelect": True}
    assert options({"questions": [several]}, '"Which colour?"="Red, Blue".').count("(x)") == 2


def test_without_an_answer_nothing_is_marked() -> None:
    assert "(x)" not in options({"questions": [COLOURS]}, "The user does not want to answer. Blue!")


@pytest.mark.parametrize(
    "questions", [[], "Which?", [{"question": ""}], [{"question": "Which?", "secret": 1}], [3], [{}]]
)
def test_other_shapes_are_shown_by_the_generic_view(questions: object) -> None:
    assert view_of(RecordedCall("ask", {"questions": questions})).name == "default"


def test_a_long_answer_is_not_split() -> None:
    """It would take seconds for a page of 20 MB, once for each option."""
    several = {**COLOURS, "multiSelect": True}
    assert options({"questions": [several]}, "Red, " * (MAX_READ // 5) + "Blue").count("(x)") == 0
