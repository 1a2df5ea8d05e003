"""Excerpts of steps are bounded, survive storage unchanged, and keep what later steps need."""

import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.entries import Body, Entry, ModelOutput, ToolCall, ToolResult, ToolResults, UseTool
from historyapp.core.episodes import Episode, group_episodes
from historyapp.core.excerpts import (
    MAX_LINE,
    Excerpt,
    begin_excerpt,
    continue_excerpt,
    one_line,
    split_lines,
)
from historyapp.core.json import dump_json
from historyapp.core.results import NO_OUTPUT, returned_text
from historyapp.core.tokens import count_tokens

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=[]))


def step(result: str, arguments: dict[str, Any] | None = None, status: Any = "success") -> Episode:
    call = ToolCall(id="1", name="read_file", arguments=arguments or {"path": "src/a_b.py"})
    tool_result = ToolResult(tool_call_id="1", status=status, outputs=result, reason=result)
    bodies: list[Body] = [ModelOutput(tool_calls=(call,)), ToolResults(results=(tool_result,))]
    return next(group_episodes(Entry(n, body, NOW) for n, body in enumerate(bodies, 1)))


def excerpt(episode: Episode) -> Excerpt:
    excerpt = begin_excerpt(episode.output, 10)
    return (
        continue_excerpt(excerpt, [*map(returned_text, episode.results)], 20) if episode.results else excerpt
    )


def test_an_excerpt_has_the_call_its_names_and_the_informative_lines() -> None:
    built = excerpt(step("plain words\ndef load_all(self):\n    return self.cache_dir\n"))
    assert built.call == "read_file: src/a_b.py"
    assert built.names == ("src/a_b.py",)
    assert [line.text for line in built.lines] == ["def load_all(self):", "    return self.cache_dir"]
    assert built.lines[1].names == ("self.cache_dir",)
    assert built.lines[0].tokens == count_tokens("def load_all(self):")
    assert (built.output_tokens, built.result_tokens, built.result_names) == (10, 20, 2)


def test_a_line_that_only_repeats_is_not_kept() -> None:
    built = excerpt(step("see a_b.py\nagain a_b.py\nand c_d.py"))
    assert [line.text for line in built.lines] == ["see a_b.py", "and c_d.py"]


def test_a_failure_is_kept_even_if_it_has_no_names() -> None:
    assert excerpt(step("It failed\nwith pity", status="error")).lines[0].text == "It failed"


def test_an_action_written_as_text_and_an_answer_have_excerpts_too() -> None:
    text = ModelOutput(use_tool=UseTool(name="grep", arguments={"pattern": "a_b"}))
    answer = ModelOutput(text="All done in x_y.")
    steps = list(group_episodes([Entry(1, text, NOW), Entry(2, answer, NOW)]))
    assert excerpt(steps[0]).call == "grep: a_b"
    assert excerpt(steps[0]).names == ("a_b",)
    assert excerpt(steps[1]).call == "All done in x_y."


@pytest.mark.parametrize(
    "unit",
    ["name_{} ", "name_{}\n", "{:x}_\n", '{{"id": "u_{}", "n": {}00}}, ', "größe_{} ", "名_{}\n", "x" * 90],
)
def test_an_excerpt_is_bounded_at_any_size(unit: str) -> None:
    huge = "".join(unit.format(n, n) for n in range(30_000))
    built = excerpt(step(huge, {"content": huge}))
    assert len(built.call) <= 240
    assert sum(len(line.text) for line in built.lines) <= 1200
    assert len(dump_json(built.dump())) < 16_000
    objects: list[object] = [built.lines, built.names, built.others, *built.names, *built.others]
    objects += [part for line in built.lines for part in (line, line.text, line.names, *line.names)]
    assert sum(map(sys.getsizeof, objects)) < 1.5 * built.memory < 101_000


@given(ANY_TEXT, ANY_TEXT, st.sampled_from(["success", "error", "interrupted_by_human", "skipped"]))
def test_an_excerpt_is_loaded_as_stored(result: str, argument: str, status: str) -> None:
    tool_result = ToolResult(tool_call_id="1", status=status, outputs=result, reason=result, feedback=result)  # type: ignore[arg-type]
    bodies: list[Body] = [
        ModelOutput(tool_calls=(ToolCall(id="1", name=argument, arguments={"x": argument}),)),
        ToolResults(results=(tool_result,)),
    ]
    built = excerpt(next(group_episodes(Entry(n, body, NOW) for n, body in enumerate(bodies, 1))))
    assert Excerpt.load(built.dump()) == built
    dump_json(built.dump())


def test_an_empty_excerpt_is_loaded_if_none_is_stored() -> None:
    assert Excerpt.load([]) == Excerpt()


@given(st.text(alphabet="ab ,}\n", max_size=2000))
def test_pieces_are_the_text_in_parts_of_bounded_length(text: str) -> None:
    parts = list(split_lines(text))
    assert all(len(part) <= MAX_LINE for part in parts)
    assert "".join(parts) == text.replace("\n", "")


def test_long_lines_break_after_an_object() -> None:
    line = '{"id": "a_1"}, ' * 30
    assert all(part.endswith("},") for part in list(split_lines(line))[:-1])


def test_one_line_shows_the_beginning_without_line_breaks() -> None:
    assert one_line("a\n\n  b", 10) == "a b"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"


def answered(*outputs: str) -> Excerpt:
    """The excerpt of a step whose results came one after another. Each has two tokens."""
    built = begin_excerpt(ModelOutput(tool_calls=(ToolCall(id="1", name="ls"),)), 10)
    for output in outputs:
        built = continue_excerpt(built, [output if output.strip() else NO_OUTPUT], 2)
    return built


def test_each_further_result_adds_new_lines() -> None:
    built = answered("see a_b.py", "again a_b.py\nand c_d.py")
    assert [line.text for line in built.lines] == ["see a_b.py", "and c_d.py"]
    assert (built.result_names, built.output_tokens, built.result_tokens) == (2, 10, 4)


def test_lines_of_a_later_result_replace_less_informative_earlier_ones() -> None:
    dull = "\n".join(f"{'plain words ' * 12} name_{n}" for n in range(8))
    built = answered(dull, "\n".join(f"KeyError: lookup_{n}" for n in range(20)))
    texts = [line.text for line in built.lines]
    assert sum(map(len, texts)) <= 1200
    assert [text for text in texts if text.startswith("KeyError")] == [
        f"KeyError: lookup_{n}" for n in range(20)
    ]
    assert any("name_" in name for name in built.others)


def test_few_names_are_the_first_200() -> None:
    built = answered(" ".join(f"name_{n}" for n in range(2000)))
    assert (len(built.others), len(built.with_few_names().others)) == (600, 200)
    assert built.others[:200] == built.with_few_names().others


@given(st.lists(ANY_TEXT, max_size=4))
def test_an_excerpt_continues_from_its_stored_form(outputs: list[str]) -> None:
    excerpt = answered(*outputs)
    last = ["a new_name"]
    assert continue_excerpt(Excerpt.load(excerpt.dump()), last, 2) == continue_excerpt(excerpt, last, 2)
