"""A batch becomes one summary with key points, asked for by a schema."""

import json
from hashlib import sha256
from typing import Any

from historyapp.core.quoting import DATA_NOTE
from historyapp.core.strategies import STRATEGIES
from historyapp.core.strategies.ai_summary import AI_SUMMARY, INSTRUCTION, TASK
from historyapp.core.strategies.base import Material, SummaryDraft
from tests.core.strategies.scripted import Model, called, resources, steps

ANSWER = {
    "summary": "It fixed the parser.",
    "goal": "All tests pass",
    "decisions": ["Keep the old name"],
    "identifiers": ["src/a_b.py", "load_all", "src/a_b.py"],
    "errors": [
        {"error": "KeyError: 'x'", "solved": True, "how": "a default"},
        {"error": "It is slow", "solved": False, "how": ""},
    ],
    "open_questions": ["Is it\nfast?"],
    "extra": 1,
}
POINTS = (
    "Goal: All tests pass",
    "Decided: Keep the old name",
    "Names: src/a_b.py, load_all",
    "Error (solved: a default): KeyError: 'x'",
    "Error (not solved): It is slow",
    "Open: Is it fast?",
)


def write(answer: Any, inputs: tuple[str, ...] = (), **fields: Any) -> tuple[SummaryDraft, Model]:
    model = Model(json.dumps(answer))
    material = Material(steps(called("one"), called("two")), inputs, "Fix it all")
    return STRATEGIES["ai_summary"].write(material, resources(model, **fields)), model


def test_the_text_has_the_summary_and_its_points() -> None:
    written, _ = write(ANSWER)
    assert written.key_points == POINTS
    assert written.text == "It fixed the parser.\n" + "\n".join(f"- {point}" for point in POINTS)


def test_one_request_asks_for_every_field_of_all_steps() -> None:
    _, model = write(ANSWER, ("Be careful",))
    (prompt,) = model.prompts
    schema = prompt.answer_schema
    assert schema
    assert set(schema["required"]) == set(schema["properties"]) == set(ANSWER) - {"extra"}
    assert schema["additionalProperties"] is False
    for tag in ("<task-", "<user-", "<step-1-", "<step-2-"):
        assert prompt.material.count(tag) == 1


def test_only_the_summary_is_required() -> None:
    written, _ = write({"summary": "It went on.", "errors": [{"error": "e"}]})
    assert written.text == "It went on.\n- Error (not solved): e"


def test_the_users_words_come_first_for_any_response() -> None:
    written, _ = write(ANSWER, ('Use "tabs".', "Now\nplease"))
    assert written.text.startswith(
        'The user said: "Use "tabs"."\nThe user said: ```\nNow\nplease\n```\nIt fixed the parser.'
    )


def test_points_without_room_are_left_out_and_counted() -> None:
    answer = {**ANSWER, "decisions": [f"Plain words number {n} of many" for n in range(60)]}
    written, _ = write(answer, max_length=400)
    assert len(written.text) <= 400
    assert "It fixed the parser." in written.text
    assert "less useful lines left out" in written.text


def test_many_points_are_counted_and_long_ones_clipped() -> None:
    written, _ = write({**ANSWER, "open_questions": ["word " * 100] * 70})
    assert len(written.key_points) == 51
    assert written.key_points[-1] == "[25 more points left out]"
    assert all(len(point) <= 300 for point in written.key_points)
    assert "[…]" in written.key_points[10]


def test_characters_that_no_database_stores_are_replaced() -> None:
    written, _ = write({"summary": "It is \x00 done.", "goal": "\x00"})
    assert written.text == "It is \ufffd done.\n- Goal: \ufffd"
    assert written.key_points == ("Goal: \ufffd",)


def test_the_default_instruction_stays_byte_for_byte() -> None:
    assert (
        sha256(INSTRUCTION.encode()).hexdigest()
        == "e5259c218e4aa96a4e130c5b18dfdeb9d5839465704f7fc1c01bdb0a87ff91b8"
    )


def test_a_custom_instruction_replaces_only_the_task() -> None:
    model = Model('{"summary": "It read src/a_b.py."}')
    for own in ("", "Keep every path."):
        AI_SUMMARY.write(Material(steps(called())), resources(model, instruction=own))
    default, changed = (prompt.instruction for prompt in model.prompts)
    assert default == INSTRUCTION
    assert changed == default.replace(f"{TASK} ", "Keep every path.\n\n")
    assert model.prompts[0].material == model.prompts[1].material
    assert DATA_NOTE in changed
