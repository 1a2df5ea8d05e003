"""Every text of an entry is found, and a signature never hides a text that is there."""

import sys
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core import searchable
from historyapp.core.entries import (
    Body,
    DebugLog,
    ErrorDetails,
    MemoryNotebook,
    ModelInput,
    ModelOutput,
    Review,
    SystemInstruction,
    Thoughts,
    ToolCall,
    ToolResult,
    ToolResults,
    UseTool,
    dump_body,
)
from historyapp.core.searchable import (
    FIELDS,
    Passage,
    dump_passages,
    load_passages,
    lowered,
    matches,
    may_contain,
    passages,
    signature,
    trigrams,
)

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=[]))
OUTPUTS = ToolResult(status="success", outputs={"lines": ["a", "b"]})
ERROR = ErrorDetails(args=[], message="disk full", exception_type="OSError", repr="OSError(28)")


def texts(body: Body) -> list[tuple[str, str]]:
    return [(passage.field, passage.text) for passage in passages(3, 1, body.kind, dump_body(body))]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (SystemInstruction(text="Be brief."), [("instruction", "Be brief.")]),
        (MemoryNotebook(content="notes"), [("notebook", "notes")]),
        (ModelInput(content="go"), [("input", "go")]),
        (
            ModelInput(content=[{"type": "text", "text": "see"}, {"type": "image", "data": "aGVsbG8="}]),
            [("input", "see\n\n[image]")],
        ),
        (ModelOutput(thoughts="hm", text="done"), [("thought", "hm"), ("answer", "done")]),
        (ModelOutput(thoughts=Thoughts(plan="first", next=2)), [("thought", "plan: first\nnext: 2")]),
        (
            ModelOutput(use_tool=UseTool(name="edit", arguments={"path": "a.py", "new": 'x = "y"\nz'})),
            [("call", 'edit\npath: a.py\nnew: x = "y"\nz')],
        ),
        (
            ModelOutput(
                tool_calls=(ToolCall(id="1", name="ls"), ToolCall(id="2", name="cat", arguments="{"))
            ),
            [("call", "ls\n"), ("call", "cat\n{")],
        ),
        (
            ToolResults(
                overall="both", results=(ToolResult(status="success", outputs={"lines": ["a", "b"]}),)
            ),
            [("result", "both"), ("result", "lines: a\nlines: b")],
        ),
        (
            ToolResults(results=(ToolResult(status="error", reason="it failed", error=ERROR),)),
            [("result", "it failed\ndisk full\nOSError(28)")],
        ),
        (
            ToolResults(results=(ToolResult(status="interrupted_by_human", feedback="stop"),)),
            [("review", "stop")],
        ),
        (Review(analysis="good", supervision={"score": 1}), [("review", "good\nscore: 1")]),
        (DebugLog(category="x", message="a note"), [("note", "a note")]),
    ],
    ids=lambda value: value.kind if hasattr(value, "kind") else "",
)
def test_every_text_of_an_entry_is_a_passage(body: Body, expected: list[tuple[str, str]]) -> None:
    assert texts(body) == expected
    assert {field for field, _ in expected} <= set(FIELDS)


def test_an_input_belongs_to_the_next_step_and_a_result_to_its_own() -> None:
    assert [each.step for each in passages(1, 0, "model_input", {"content": "go"})] == [1]
    assert [each.step for each in passages(2, 1, "model_output", {"text": "done"})] == [1]


def test_values_of_any_depth_are_read() -> None:
    deep: Any = "leaf"
    for _ in range(5_000):
        deep = [deep]
    body = {"results": [{"status": "success", "outputs": deep}]}
    assert [each.text for each in passages(1, 1, "tool_results", body)] == ["leaf"]


def test_lower_case_has_as_many_characters_for_every_character() -> None:
    every = [chr(code) for code in range(sys.maxunicode + 1)]
    assert [each for each in every if len(lowered(each)) != 1] == []
    assert lowered("ΣΑΣ İI") == lowered("σας ii")


@given(ANY_TEXT, st.lists(st.tuples(st.sampled_from(FIELDS), ANY_TEXT)))
def test_passages_are_unpacked_unchanged(text: str, pairs: list[tuple[str, str]]) -> None:
    given_passages = [Passage(number, 1, *each) for number, each in enumerate([("input", text), *pairs])]
    assert load_passages(dump_passages(given_passages)) == given_passages


@given(ANY_TEXT, st.data())
def test_a_signature_never_hides_a_part_of_its_text(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    part = lowered(text)[start : data.draw(st.integers(start, len(text)))]
    expected_trigrams = trigrams(part) if len(part.encode("utf-8", "surrogatepass")) > 2 else set()
    assert may_contain(signature(lowered(text)), expected_trigrams)


@given(ANY_TEXT, st.integers(1, 9))
def test_a_signature_is_the_same_in_parts_of_any_length(text: str, length: int) -> None:
    whole = signature(text)
    with mock.patch.object(searchable, "_PART", length):
        assert signature(text) == whole


@given(ANY_TEXT)
def test_a_signature_with_all_its_bits_is_the_same_however_early_they_are_set(text: str) -> None:
    expected = bytearray(2)
    for trigram in trigrams(lowered(text)):
        bit = (trigram * searchable._MULTIPLIER >> 8) & 15
        expected[bit >> 3] |= 1 << (bit & 7)
    with mock.patch.multiple(searchable, _PART=2, _MIN_BITS=16, _MAX_BITS=16):
        assert signature(text) == expected


def test_a_signature_rules_out_most_other_texts() -> None:
    bits = signature("\n".join(f"def parse_{number}(text): return text" for number in range(2_000)))
    others = [f"unique_{number}_name" for number in range(1_000)]
    assert sum(may_contain(bits, trigrams(other)) for other in others) < 20


def test_a_match_shows_the_text_around_it_on_one_line() -> None:
    text = "x" * 100 + "\n\tthe Needle\nand a needle " + "y" * 100
    (match,) = matches([Passage(3, 2, "result", text)], "needle")
    assert (match.position, match.step, match.field, match.times) == (3, 2, "result", 2)
    assert match.match == "Needle"
    assert match.before == "…" + "x" * 54 + " the "
    assert match.after == " and a needle " + "y" * 46 + "…"


def test_an_entry_with_several_matching_texts_gives_one_match() -> None:
    passages_of_entry = [
        Passage(3, 2, "call", "a b"),
        Passage(3, 2, "call", "B"),
        Passage(4, 2, "result", "b b"),
    ]
    assert [(m.position, m.field, m.times) for m in matches(passages_of_entry, "b")] == [
        (3, "call", 2),
        (4, "result", 2),
    ]


def test_a_text_across_two_passages_is_not_found() -> None:
    assert (
        load_passages(dump_passages([Passage(1, 1, "call", "ab"), Passage(1, 1, "call", "cd")]), "bc") == []
    )
