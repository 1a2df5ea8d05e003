"""Counting tokens."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from historyapp.core.entries import ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.core.json import json_text
from historyapp.core.tokens import cached_counter, count_tokens, counter_for, encoding_for, entry_tokens
from historyapp.core.vocabularies import tokenizer


@pytest.mark.parametrize(
    ("text", "o200k", "cl100k"),
    [
        ("", 0, 0),
        ("I'll say they've WON'T", 5, 7),
        ("x = 1234567890 + 3.14159", 13, 13),
        ("    return path.read_text().splitlines()\n\n\n    # keep\r\n", 13, 13),
        ("日本語のテキストと漢字", 9, 12),
        ("naïve café \N{EN DASH} “quoted”…", 8, 9),
        ("🧠👩\u200d👩\u200d👧 \u200d", 12, 18),
        ("<|endoftext|>", 7, 7),
        ("اَلْعَرَبِيَّةُ ١٢٣", 14, 22),
        (" " * 50 + "x", 2, 2),
        ('{"path":"/repo/src/module_1.py","line":12}', 15, 14),
    ],
)
def test_tokens_are_counted_as_tiktoken_counts_them(text: str, o200k: int, cl100k: int) -> None:
    assert (count_tokens(text), count_tokens(text, "cl100k_base")) == (o200k, cl100k)


def test_text_that_is_not_valid_unicode_can_be_counted() -> None:
    assert count_tokens("a\ud800b\x00c") == count_tokens("a\ufffdb\ufffdc") > 0


def test_a_long_text_of_rare_characters_can_be_counted() -> None:
    """In one piece: rare characters take several tokens each."""
    assert count_tokens("\U0001d4d0" * 100_000) > 200_000


def test_threads_that_start_to_count_together_load_one_vocabulary() -> None:
    with ThreadPoolExecutor(4) as threads:
        assert len({id(vocabulary) for vocabulary in threads.map(tokenizer, ["cl100k_base"] * 4)}) == 1


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("gpt-4o", "o200k_base"),
        ("gpt-4.1-mini", "o200k_base"),
        ("gpt-5-mini", "o200k_base"),
        ("openai:o3", "o200k_base"),
        ("openai/gpt-4o-mini", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-4-turbo-2024-04-09", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("claude-opus-4-1", None),
        ("", None),
    ],
)
def test_a_model_has_the_encoding_that_openai_documents(model: str, encoding: str | None) -> None:
    assert encoding_for(model) == encoding


def test_each_encoding_has_its_own_counts() -> None:
    text = "你好，世界"
    assert counter_for("gpt-4")(text) == count_tokens(text, "cl100k_base") > counter_for("gpt-4o")(text)
    assert counter_for("claude-opus-4-1")(text) == count_tokens(text)


def results_of(outputs: Any) -> int:
    return entry_tokens(ToolResults(results=(ToolResult(status="success", outputs=outputs),)))


def test_results_in_parts_count_as_their_text() -> None:
    text = 'def greet():\n\treturn "Grüß dich"\n' * 20
    assert results_of([{"type": "text", "text": text}]) == count_tokens(text)


def test_an_image_in_a_result_counts_as_its_name() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR" * 900}}
    assert results_of([image]) == count_tokens("[image]")


@pytest.mark.parametrize(
    "value", [{"n": [1, None, 0.5]}, ["a", "b"], {"path": "C:\\users"}, {"é": "\x7f"}, 7]
)
def test_other_results_count_as_json(value: Any) -> None:
    assert results_of(value) == count_tokens(json_text(value))


def test_arguments_count_with_their_letters_not_with_escapes() -> None:
    call = ToolCall(id="1", name="write", arguments={"text": "日本語のテキスト"})
    assert entry_tokens(ModelOutput(tool_calls=(call,))) == count_tokens('write {"text":"日本語のテキスト"}')


def test_a_plan_that_claude_code_read_from_a_file_is_not_counted_as_written() -> None:
    def tokens(**arguments: str) -> int:
        call = ToolCall(id="1", name="ExitPlanMode", arguments=arguments)
        return entry_tokens(ModelOutput(text="Ready.", tool_calls=(call,)))

    plan = "- one more step\n" * 500
    assert tokens(plan=plan, planFilePath="/p/plan.md") < 30
    assert tokens(plan=plan) > 1_000


def test_a_cached_counter_counts_a_text_again_after_many_others() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    cached = cached_counter(count, 2)
    assert [cached(text) for text in ("a", "bb", "a", "\ud800", "a", "bb")] == [1, 2, 1, 1, 1, 2]
    assert counted == ["a", "bb", "\ud800", "bb"]


def test_a_cached_counter_does_not_keep_texts() -> None:
    cached = cached_counter(len, 100)
    tracemalloc.start()
    try:
        for number in range(50):
            cached(f"{number}\U0001f600" + " " * 100_000)
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()
