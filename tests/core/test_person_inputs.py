"""Which inputs begin turns, in each place that decides it."""

import tracemalloc
from typing import Any

import pytest

from historyapp.core.entries import Body, Entry, ModelInput, ModelOutput
from historyapp.core.person_inputs import begins_turn, delegation_in, typed_text
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


DELEGATION = (
    "<codex_delegation>\n  <source_thread_id>019f-0445</source_thread_id>\n"
    "  <input>Fix the <input> field.\n\nIt is </input> in a.html.</input>\n</codex_delegation>"
)


def test_a_turn_that_another_thread_of_codex_passed_on_is_named_by_its_task() -> None:
    words = "Fix the <input> field.\n\nIt is </input> in a.html."
    assert typed_text("user", DELEGATION) == words
    assert delegation_in(DELEGATION) == ("019f-0445", words)
    bodies: list[Body] = [ModelInput(content=DELEGATION), ModelOutput(text="Done.")]
    tail = Tail()
    for position, body in enumerate(bodies, 1):
        tail = advance(tail, Entry(position, body, START, {}, 1)).tail
    assert tail.step is not None
    assert tail.step.input_preview == "Fix the <input> field. It is </input> in a.html."


def test_a_cut_off_or_continued_delegation_loses_no_word() -> None:
    assert typed_text("user", DELEGATION[:-30]).startswith("Fix the <input> field.")
    assert typed_text("user", DELEGATION + " And b.html.").endswith("And b.html.")
    other = "<codex_delegation> in a sentence"
    assert (typed_text("user", other), delegation_in(other)) == (other, None)


def test_words_after_a_delegation_are_not_divided() -> None:
    """An append looks for its end while the session is locked. A list of the words has 50 MB."""
    text = "<codex_delegation><input>Fix it.</input>" + "ab " * 1_000_000
    tracemalloc.start()
    try:
        assert delegation_in(text) == ("", text.partition("<input>")[2])
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
