"""Which inputs begin turns, in each place that decides it."""

from typing import Any

import pytest

from historyapp.core.entries import Body, Entry, ModelInput, ModelOutput
from historyapp.core.person_inputs import begins_turn, typed_text
from historyapp.core.projection import Tail, advance
from tests.core.overview.runs import START, Run

REVIEW = (
    "<command-message>review</command-message>\n<command-name>/review</command-name>\n"
    "<command-args>the last commit</command-args>"
)
SKILL = '<command-message>The "pdf" skill is loading</command-message>\n<command-name>pdf</command-name>'


@pytest.mark.parametrize("content", [REVIEW, [{"type": "text", "text": REVIEW}, {"type": "image"}]])
def test_a_command_that_the_model_answers_begins_a_turn(content: Any) -> None:
    assert begins_turn("command", content)
    assert typed_text("command", content) == "/review the last commit"


@pytest.mark.parametrize(
    ("channel", "content"),
    [
        ("command", "<command-name>/model</command-name>\n<command-message>model</command-message>"),
        ("command", "<local-command-stdout>Set model</local-command-stdout>"),
        ("command", SKILL),
        ("command", []),
        ("command", None),
        ("meta", REVIEW),
    ],
)
def test_commands_of_the_harness_their_outputs_and_skills_begin_no_turn(channel: str, content: Any) -> None:
    assert not begins_turn(channel, content)


def test_words_of_a_person_begin_a_turn_and_stay_as_they_are() -> None:
    assert begins_turn("user", REVIEW)
    assert typed_text("user", REVIEW) == REVIEW


def test_a_step_after_a_command_begins_a_turn_named_by_it() -> None:
    command = ModelInput(channel="command", content=REVIEW)
    bodies: list[Body] = [command, ModelInput(channel="meta", content="Review …"), ModelOutput(text="Fine.")]
    tail = Tail()
    for position, body in enumerate(bodies, 1):
        tail = advance(tail, Entry(position, body, START, {}, 1)).tail
    assert tail.step is not None
    assert (tail.step.turn, tail.step.turn_first, tail.step.input_preview) == (
        1,
        1,
        "/review the last commit",
    )


def test_the_time_before_a_command_is_a_persons_wait() -> None:
    run = Run().ask().answer(after=5)
    run.add(ModelInput(channel="command", content=REVIEW), 90).ask(channel="meta").answer(after=10)
    figures = run.figures
    assert (figures.model_time, figures.waiting_time) == (15_000, 90_000)
    assert (figures.turns, figures.turn_count, figures.waits) == ([1, 2], 2, [(90_000, 2)])
