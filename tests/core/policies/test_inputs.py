"""Inputs that do not fit: the longest are clipped, then old ones are left out."""

from historyapp.core.policies.inputs import TOO_MANY
from tests.core.formats.contexts import messages_of
from tests.core.policies.test_budgeted import context, lines, session

TINY = {step: f"yes, go to number {step}" for step in range(2, 401)}
MANY = session([lines(number, 3) for number in range(1, 401)], TINY)
"""400 steps with an input before each."""


def users(budget: int, step: int) -> list[str]:
    chosen = messages_of(context(MANY, budget, step))
    return [message["content"] for message in chosen if message["role"] == "user"]


def test_many_tiny_inputs_do_not_starve_the_steps() -> None:
    chosen = context(MANY, 2048)
    tokens = dict.fromkeys(("input", "step"), 0)
    for segment in chosen.manifest.segments:
        if segment.source in tokens:
            tokens[segment.source] += segment.tokens
    assert tokens["input"] <= 0.3 * 2048
    assert tokens["step"] > 0.5 * 2048


def test_the_first_input_and_the_newest_stay() -> None:
    contents = users(2048, 401)
    assert contents[0] == "Mend the parser in src/parser_main.py."
    assert {TINY[step] for step in range(396, 401)} <= set(contents)


def test_left_out_inputs_are_listed() -> None:
    manifest = context(MANY, 2048).manifest
    positions = {segment.position for segment in manifest.segments if segment.source == "input"}
    ranges = [out for out in manifest.left_out if out.reason == TOO_MANY]
    missing = {entry.position for entry in MANY.inputs} - positions
    assert missing
    for position in missing:
        assert any(out.position <= position <= (out.last_position or 0) for out in ranges if out.position)


def test_the_beginning_does_not_change_with_every_new_input() -> None:
    second = [users(2048, step)[1] for step in range(340, 380)]
    assert len(set(second)) <= 10
