"""Patterns that begin at one place after another take linear time together.

Each such match is linear by itself, see ``tests/test_linear_patterns.py``. A caller that reads the same text
again from each place would still take more.
"""

import ast
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from dashboard.rendering import harness, lines, markdown
from dashboard.rendering.text import terminal
from historyapp.core import call_subjects, content, identifiers, person_inputs, search_tokens
from historyapp.core import text as texts
from historyapp.core.errors import Invalid
from historyapp.core.evaluation.name_search import first_places
from historyapp.core.search_query import MAX_CHARACTERS, SearchQuery, query_words
from historyapp.core.shell_output import reported_seconds, shell_output
from historyapp.core.strategies.user_words import split_words
from historyapp.llm.probabilities import without_probabilities
from tests.examples import thorough
from tests.patterns_in_tree import ROOT, WAYS, modules_with_patterns

LENGTH, LONG = 1 << 16, 1 << 20
"""Characters."""
SECONDS = {LENGTH: 0.25, LONG: 1.5}
"""Processor time that a reader may take. The slowest takes 0.45 s for a million characters; a quadratic one
would take minutes."""


MANY_NAMES = ["a", "a_a", "中a", *(f"name{number}" for number in range(40))]
"""So many that the text is read symbol by symbol."""


class Reader(NamedTuple):
    """A function that matches from one place after another, and what each of its texts begins with."""

    read: Callable[[str], Any]
    beginning: str = ""


READERS: dict[str, list[Reader]] = {
    "historyapp/core/call_subjects.py _patch_strings": [
        Reader(call_subjects.patch_text, '"*** Begin Patch\\n'),
        Reader(lambda text: call_subjects.call_subject("bash", {"command": text})),
    ],
    "historyapp/core/content.py is_base64": [Reader(content.is_base64)],
    "historyapp/core/evaluation/name_search.py _symbols": [
        Reader(lambda text: first_places(MANY_NAMES, text, 10**9))
    ],
    "historyapp/core/identifiers.py identifier_places": [Reader(identifiers.identifier_places)],
    "historyapp/core/identifiers.py piece_places": [Reader(identifiers.identifiers)],
    "historyapp/core/identifiers.py word_places": [
        Reader(lambda text: identifiers.word_places("a_a_a", text)),
        Reader(lambda text: identifiers.word_places("aaa", text)),
    ],
    "historyapp/core/scanning.py enclosed": [Reader(person_inputs.typed_command, "<command-name>")],
    "historyapp/core/search_query.py query_words": [
        Reader(lambda text: query_words(text[:MAX_CHARACTERS], SearchQuery()))  # a longer one is refused
    ],
    "historyapp/core/search_tokens.py token_pieces": [Reader(search_tokens.token_pieces)],
    "historyapp/core/shell_output.py reported_seconds": [Reader(reported_seconds, "Chunk ID: 1\n")],
    "historyapp/core/shell_output.py shell_output": [Reader(shell_output, "Chunk ID: 1\n")],
    "historyapp/core/strategies/user_words.py split_words": [Reader(split_words)],
    "historyapp/core/text.py clean": [Reader(texts.clean)],
    "historyapp/core/text.py without_colours": [Reader(texts.without_colours)],
    "historyapp/llm/probabilities.py _skip": [Reader(without_probabilities, '{"logprobs": [')],
    "dashboard/rendering/harness.py _parts": [Reader(harness.message_parts)],
    "dashboard/rendering/lines.py matches": [Reader(lines.matches, "a:1:x\n")],
    "dashboard/rendering/markdown.py _has_too_many_cells": [Reader(markdown._has_too_many_cells)],
    "dashboard/rendering/text.py _ends": [Reader(terminal)],
    # It looks at 20,000 characters of a text, and each match there reads at most 80.
    "historyapp/services/search/suggestions.py _words": [],
}
"""By file and function."""
PARTS = (
    *'a 0_-/."\\\x1b\n\té中',
    *(
        "a_",
        "a.",
        "a中",
        "a b ",
        "a\n",
        "\n\n",
        "--\n",
        "|-|\n",
        "a:1:x\n",
        "a-1-",
        '"a"',
        "```\n",
        "<",
        "[1,",
    ),
    *(
        "\x1b[",
        "\x1b[1m",
        "https://a",
        '"*** Begin Patch\\n',
        "<command-name>",
        "</command-name>",
        "tokens>1 ",
    ),
)


def places() -> set[str]:
    """Where the tree matches a compiled pattern from a place within a text."""
    found = set[str]()
    for path in modules_with_patterns():
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                called = (node for node in ast.walk(function) if isinstance(node, ast.Call))
                if any(_has_place(call) for call in called):
                    found.add(f"{path.relative_to(ROOT)} {function.name}")
    return found


def _has_place(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in WAYS or "sub" in function.attr:
        return False
    is_module = isinstance(function.value, ast.Name) and function.value.id == "re"
    return len(call.args) > 1 and function.attr != "split" and not is_module


def test_every_place_from_which_a_pattern_is_matched_is_read_here() -> None:
    assert places() == set(READERS)


def hostile_texts(beginning: str, length: int) -> Iterator[str]:
    for part in PARTS:
        yield beginning + part * (length // len(part))
    for number in (int(length**0.5 / 2), int(length**0.5), length // 20):
        yield beginning + "--\n" * number + "x" * (length - 3 * number)  # heads of tables, and one long line


@pytest.mark.parametrize("length", [LENGTH, thorough(LONG)])
@pytest.mark.parametrize("place", READERS)
def test_a_reader_takes_linear_time(place: str, length: int) -> None:
    slow = []
    for reader in READERS[place]:
        for text in hostile_texts(reader.beginning, length):
            taken = min(seconds(reader, text) for _ in range(2))
            if taken > SECONDS[length]:
                slow.append(f"{taken:.2f} s: {text[:40]!r}")
    assert slow == []


def seconds(reader: Reader, text: str) -> float:
    started = time.thread_time()
    try:
        found = reader.read(text)
        if isinstance(found, Iterator):
            deque(found, maxlen=0)
    except (Invalid, ValueError):
        pass  # a text that is refused is read until the mistake
    return time.thread_time() - started


def test_tables_are_counted_once() -> None:
    """707 heads of tables and a long line: each was read to the end: 0.54 s for a million characters."""
    text = "--\n" * 707 + "x" * (LONG - 3 * 707)
    assert min(seconds(Reader(markdown._has_too_many_cells), text) for _ in range(3)) < 0.1
