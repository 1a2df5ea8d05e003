"""A table of steps, as JSON or Markdown, which says what it leaves out."""

import json
from typing import Any

import pytest

from historyapp.core.entries import Body, ModelOutput
from historyapp.core.strategies.base import Material
from historyapp.core.strategies.structured import STRUCTURED, StructuredOptions
from tests.core.strategies.scripted import called, judged, resources, steps

PLAIN = "We look at all that was said here, and then we go on as we did before. " * 8
"""Thoughts, which stand in no row: steps without any may be shorter than their rows."""


def text_of(
    *bodies: list[Body], inputs: tuple[str, ...] = (), style: Any = "json", length: int = 8_000
) -> str:
    options = StructuredOptions(style=style)
    return STRUCTURED.write(
        Material(steps(*bodies), inputs), resources(options=options, max_length=length)
    ).text


def test_each_step_is_a_row() -> None:
    fields = json.loads(
        text_of(
            called("def load_all(): pass", path="a/b.py", line=120, thoughts=PLAIN),
            called("KeyError: 'x_y'", "run", "error", command="make"),
            [ModelOutput(text="Done: see c_d.py.", thoughts=PLAIN)],
        )
    )
    assert fields == {
        "steps": [
            {
                "step": 1, "tool": "read_file", "target": "a/b.py 120", "outcome": "success",
                "facts": ["load_all", "def load_all(): pass"],
            },
            {
                "step": 2, "tool": "run", "target": "make", "outcome": "error: KeyError: 'x_y'",
                "facts": ["KeyError: 'x_y'"],
            },
            {
                "step": 3, "tool": "answer", "target": "", "outcome": "answered",
                "facts": ["c_d.py", "Done: see c_d.py."],
            },
        ]
    }  # fmt: skip


def test_the_user_s_words_are_a_field() -> None:
    assert json.loads(text_of(called(thoughts=PLAIN), inputs=('Say "hi"\nnow',)))["user"] == ['Say "hi"\nnow']


def test_the_table_has_the_same_columns_and_no_cell_breaks_it() -> None:
    first_line, head, _, row = text_of(
        called("a|b_c\nd_e|f", "run", "error", command="x", thoughts=PLAIN), inputs=("Go",), style="table"
    ).split("\n")
    assert first_line == 'The user said: "Go"'
    assert head == "| step | tool | target | outcome | facts |"
    assert row == "| 1 | run | x | error: a\\|b_c d_e\\|f | b_c; d_e |"


def test_review_fields_are_facts() -> None:
    (row,) = json.loads(text_of(judged(f"Goal: mend it\n{PLAIN}", "All done.", {"score": 1}, score=1.0)))[
        "steps"
    ]
    assert row["facts"][:3] == ["Goal: mend it", "Key results: All done.", "Score: 1"]


@pytest.mark.parametrize("style", ["json", "table"])
def test_facts_are_left_out_first_then_the_oldest_steps_which_are_counted(style: str) -> None:
    names = [" ".join(f"name_{n}_{m}" for m in range(12)) for n in range(30)]
    bodies = [called(text, path=f"f_{n}.py", thoughts=PLAIN) for n, text in enumerate(names)]
    whole = text_of(*bodies, style=style, length=100_000)
    fewer = text_of(*bodies, style=style, length=len(whole) // 2)
    assert "f_0.py" in fewer
    assert "name_29_11" not in fewer
    shortened = text_of(*bodies, style=style, length=1_000)
    assert "f_0.py" not in shortened
    assert "f_29.py" in shortened
    if style == "json":
        fields = json.loads(shortened)
        assert fields["left_out"] + len(fields["steps"]) == 30
    else:
        assert f"[{30 - shortened.count('read_file')} older steps left out]" in shortened


@pytest.mark.parametrize("length", [120, 300, 2_000])
def test_the_json_stays_valid_with_the_user_s_words(length: int) -> None:
    inputs = tuple('He said "no" and \\ more\n' * 40 for _ in range(3))
    fields = json.loads(text_of(called(thoughts=PLAIN), called(), inputs=inputs, length=length))
    assert fields["left_out" if length == 120 else "user"]


@pytest.mark.parametrize("style", ["json", "table"])
def test_steps_shorter_than_their_rows_become_an_extract(style: str) -> None:
    text = text_of(called("Noon", "time"), called("Nine", "time"), inputs=("Go",), style=style)
    assert text.splitlines()[0] == 'The user said: "Go"'
    assert "steps" not in text
    assert "|" not in text
    assert "Noon" in text
    assert "Nine" in text


def test_a_row_has_each_name_once_and_cuts_none() -> None:
    path = "src/" + "long_folder/" * 9 + "module.py"
    bodies = called(f"Read {path} and also see src/other_module.py\n" * 9, path="src/a_b.py " + path)
    (row,) = json.loads(STRUCTURED.write(Material(steps(bodies)), resources()).text)["steps"]
    assert row["target"] == "src/a_b.py…"
    assert row["facts"] == [path, "src/other_module.py"]
