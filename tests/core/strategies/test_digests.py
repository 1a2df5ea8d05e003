"""Several summaries become one that is short enough and keeps the user's words unchanged."""

import pytest

from historyapp.core.strategies import STRATEGIES
from historyapp.core.strategies.base import Material
from historyapp.core.strategies.digests import clip_summary, numbered, write_digest
from tests.core.strategies.scripted import Model, called, resources, steps

TEXTS = [f"Step {n} changed src/file_{n}.py.\nThen it looked about for a while." for n in range(40)]


def summary(*inputs: str) -> str:
    return STRATEGIES["simple_extract"].write(Material(steps(called()), inputs), resources()).text


def test_summaries_that_fit_are_joined_without_a_model_call() -> None:
    model = Model("short")
    assert write_digest(["one", "two"], resources(model)).text == "one\ntwo"
    assert model.prompts == []


def test_the_model_gets_the_length_of_the_digest() -> None:
    model = Model("It changed forty files.")
    assert write_digest(TEXTS, resources(model, max_length=300)).text == "It changed forty files."
    (prompt,) = model.prompts
    assert "at most 240 characters" in prompt.instruction
    assert prompt.material.count("<summary-") == 40


def test_without_a_model_the_least_informative_lines_are_left_out_and_counted() -> None:
    text = write_digest(TEXTS, resources(max_length=600)).text
    assert len(text) <= 600
    assert "looked about" not in text
    assert "src/file_0.py" in text
    kept = text.count("changed")
    assert text.endswith(f"[{80 - kept} less useful lines left out]")


@pytest.mark.parametrize("model", [None, Model("It went well.")])
def test_the_user_s_words_stay_verbatim_through_digests_of_digests(model: Model | None) -> None:
    texts = [summary("Use tabs,\nplease"), *TEXTS, summary('And "never" mock')]
    first = write_digest(texts, resources(model, max_length=700)).text
    second = write_digest([first, *TEXTS], resources(model, max_length=500)).text
    for text in (first, second):
        assert "Use tabs,\nplease" in text
        assert 'And "never" mock' in text
    assert len(second) <= 500


def test_the_user_s_words_of_a_json_table_stay_verbatim() -> None:
    table = (
        STRATEGIES["structured"].write(Material(steps(called()), ('Use "tabs",\nplease',)), resources()).text
    )
    text = write_digest([table, *TEXTS], resources(max_length=400)).text
    assert 'Use "tabs",\nplease' in text
    assert text.count("tabs") == 1


@pytest.mark.parametrize("text", ['{"user": [', '{"user": [1], "steps": []}', '{"user": ["a"]'])
def test_a_text_that_only_begins_like_a_json_table_stays_unchanged(text: str) -> None:
    assert write_digest([text], resources()).text == text


@pytest.mark.parametrize("max_length", [1, 5, 100, 8_000])
def test_a_digest_is_never_too_long_and_never_empty(max_length: int) -> None:
    for texts in ([], [""], TEXTS, ["x" * 100_000], [summary("words " * 3_000)]):
        assert 0 < len(write_digest(texts, resources(max_length=max_length)).text) <= max_length


def test_the_number_of_a_step_follows_the_user_s_words_in_its_summary() -> None:
    assert numbered("Read it.", 3) == "Step 3: Read it."
    text = numbered(summary("Use tabs,\nplease"), 3)
    assert text.startswith("The user said: ```\nUse tabs,\nplease\n```\nStep 3: read_file:")


@pytest.mark.parametrize("text", ["", '{"steps": [{"step": 3}]}'])
def test_an_empty_summary_and_a_table_get_no_number(text: str) -> None:
    assert numbered(text, 3) == text


def test_the_user_s_words_stay_whole_in_a_clipped_summary_if_they_fit() -> None:
    text = summary("Use tabs,\nplease") + "\n" + "word " * 1000 + "the end"
    clipped = clip_summary(text, 300)
    assert len(clipped) <= 300
    assert clipped.startswith("The user said: ```\nUse tabs,\nplease\n```\n")
    assert clipped.endswith("the end")
    assert clip_summary(text, len(text)) == text


@pytest.mark.parametrize("room", [0, 1, 20, 45, 46, 47, 100])
def test_a_clipped_summary_is_never_too_long(room: int) -> None:
    for text in (summary("Use tabs,\nplease") + "\n" + "word " * 100, summary("words " * 300), "x" * 500):
        assert len(clip_summary(text, room)) <= room
