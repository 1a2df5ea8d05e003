"""Without a model, the extract of a step keeps its call, outcome and names, and how it ended."""

import pytest

from historyapp.core.entries import Body, ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.core.rendering import long_form
from historyapp.core.strategies.base import Material, SummaryDraft
from historyapp.core.strategies.simple_extract import SIMPLE_EXTRACT, ExtractOptions, step_texts
from historyapp.core.tokens import count_tokens
from tests.core.strategies.scripted import called, judged, resources, steps

NOISE = "just some plain words that tell nothing much\n" * 30


def write(bodies: list[Body], tokens: int = 100) -> SummaryDraft:
    return SIMPLE_EXTRACT.write(Material(steps(bodies)), resources(options=ExtractOptions(max_tokens=tokens)))


@pytest.mark.parametrize(
    "line",
    [
        "src/core/parser.py",
        "https://example.test/a?b=1",
        "def load_all(self):",
        "Process exited with code 137",
        "==== 3 failed, 20 passed in 1.2s ====",
        "KeyError: 'x'",
        "requests==2.31.0",
        "error: it went wrong",
        "bash: foo: command not found",
        "d41d8cd98f00b204",
    ],
)
def test_paths_symbols_versions_numbers_urls_and_outcomes_are_kept_among_plain_words(line: str) -> None:
    text = write(called(f"{NOISE}{line}\n{NOISE}")).text
    assert line in text
    assert count_tokens(text) <= 100


def test_an_extract_begins_with_the_call_and_its_outcome() -> None:
    assert write(called("done", path="a/b.py")).text == "read_file: a/b.py → success\ndone"
    assert write(called("no", status="error")).text.startswith("read_file: src/a_b.py → error\n")


def test_colours_of_a_terminal_are_no_part_of_names() -> None:
    assert write(called("\x1b[31msrc/core/parser.py\x1b[0m\n")).text.endswith("\nsrc/core/parser.py")


def test_a_thought_fills_the_remaining_room() -> None:
    text = write(called("done", thoughts="I must look first. Then I see.")).text
    assert text.endswith("done\nThought: I must look first.")


def test_names_have_priority_over_lines_if_room_is_short() -> None:
    lines = [f"    self.value_{n} = compute_{n}(self, with_a_very_long_argument)" for n in range(6)]
    text = write(called("\n".join(lines))).text
    assert all(f"compute_{n}" in text for n in range(6))
    assert lines[5].strip() not in text


def test_lines_replace_their_names_if_there_is_room() -> None:
    assert write(called("value_1 is what\nvalue_2 was")).text.endswith("value_1 is what\nvalue_2 was")


def test_the_extract_of_an_answer_keeps_sentences_with_facts() -> None:
    plain = "We are very glad about all that was said here today. " * 20
    text = write([ModelOutput(text=f"{plain}The fix is in src/a_b.py. {plain}")], 40).text
    assert text.startswith("Answered")
    assert "The fix is in src/a_b.py." in text


@pytest.mark.parametrize("tokens", [10, 30, 100, 1_000])
def test_an_extract_never_exceeds_its_tokens(tokens: int) -> None:
    for result in ("x_1 " * 5_000, "你好，世界 a_b\n" * 900, "9" * 9_000, "🦄" * 900, "ERROR a_b.py\n" * 99):
        assert count_tokens(write(called(result), tokens).text) <= tokens


@pytest.mark.parametrize("result", ["ok", "found 3 lines in src/a_b.py", "src/c_d.py\n" * 8])
def test_an_extract_is_clearly_shorter_than_a_short_step(result: str) -> None:
    bodies = called(result, path="src/core/parser.py")
    (step,) = steps(bodies)
    assert count_tokens(write(bodies).text) <= max(10, 0.75 * count_tokens(long_form(step)))


def test_an_extract_of_a_reviewed_step_has_its_fields() -> None:
    written = write(
        judged(
            "Goal: mend the parser\nTask state: half done",
            {"key_results": ["two files", "one test"], "completion": "80 %"},
            {"score": 0.9, "passed": True},
            score=0.9,
            passed=True,
        )
    )
    fields = (
        "Task state: half done", "Completion: 80 %", "Goal: mend the parser",
        "Key results: two files; one test", "Score: 0.9", "Passed: yes",
    )  # fmt: skip
    assert written.key_points == fields
    assert written.text.startswith("\n".join(fields))


def test_fields_are_read_from_json_text_and_the_supervision_counts_most() -> None:
    written = write(judged('{"status": "begun", "goal": "go"}', "It ran. Well.", '{"status": "stuck"}'))
    assert written.key_points == ("Task state: stuck", "Goal: go", "Key results: It ran.")


def test_plain_texts_give_goal_and_results() -> None:
    written = write(judged("Mend it. Then test.", "Two files changed. More.", None, passed=False))
    assert written.key_points == ("Goal: Mend it.", "Key results: Two files changed.", "Passed: no")


def test_steps_that_share_a_summary_have_numbers() -> None:
    thoughts = "I look at the file before I change anything in it, since much depends on it. " * 3
    bodies = [called(result, thoughts=thoughts) for result in "ab"]
    text = SIMPLE_EXTRACT.write(Material(steps(*bodies)), resources()).text
    first, second = text.split("\nStep 2: ")
    assert first.startswith("Step 1: read_file: src/a_b.py → success\na")
    assert second.startswith("read_file: src/a_b.py → success\nb")


def test_the_outcome_is_kept_even_if_the_tool_call_has_no_room() -> None:
    assert write(called("ok", name="🦄🦇🦖🦕🐉" * 9), 10).text == "success"


def test_names_fill_the_room_after_the_lines() -> None:
    text = write(called(" ".join(f"name_{n}" for n in range(200))), 60).text
    assert 55 <= count_tokens(text) <= 60
    assert text.split()[-1].startswith("name_")


def test_the_numbers_that_viewers_put_before_lines_and_empty_results_take_no_room() -> None:
    text = write(called("  201→def load_all():\n202\treturn a_b")).text
    assert text.endswith("success\ndef load_all():\nreturn a_b")
    assert write(called("")).text == "read_file: src/a_b.py → success"


def test_the_extract_of_a_judged_step_is_shorter_than_the_step() -> None:
    bodies = judged("Look at it.", "Found 3 files.", "Good.", score=0.9, passed=True)
    assert write(bodies).text == "Look at it. execute_step {} Found 3 files. Look at it. Good."
    long = judged(
        "Goal: mend the parser\nTask state: half done",
        {"key_results": ["two files", "one test"], "completion": "80 %"},
        {"score": 0.9, "passed": True},
    )
    assert count_tokens(write(long).text) < 0.75 * sum(map(count_tokens, step_texts(steps(long)[0])))


def test_lines_that_a_review_field_repeats_are_left_out() -> None:
    analysis = "Goal: mend the parser, which fails on every file that ends with two empty lines"
    bodies = judged(analysis, "Found 3 files.", "Go on with the second one, and look at its tests too.")
    assert write(bodies).text.count("Found 3 files.") == 1


def test_a_short_step_stays_unchanged() -> None:
    call = ModelOutput(tool_calls=(ToolCall(id="1", name="get_current_time"),))
    result = ToolResult(tool_call_id="1", status="success", outputs="Noon")
    assert write([call, ToolResults(results=(result,))]).text == "get_current_time {} Noon"
    assert write([ModelOutput(text="Yes.")]).text == "Yes."


def test_steps_of_a_few_words_share_a_summary_without_numbers() -> None:
    answers = [[ModelOutput(text=text)] for text in ("Yes.", "No.")]
    assert SIMPLE_EXTRACT.write(Material(steps(*answers)), resources()).text == "Yes.\nNo."
