"""Writing a summary takes bounded time, however many steps it covers."""

import pytest

from historyapp.core.language import MAX_PIECE
from historyapp.core.strategies import STRATEGIES, writing
from historyapp.core.strategies.base import Material
from historyapp.core.strategies.writing import MAX_ANALYSED, WriteRequest, write
from tests.core.strategies.scripted import called, steps


class _CountingLanguage:
    """Finds each text as a name, and counts the characters that it reads."""

    def __init__(self) -> None:
        self.characters = self.texts = 0

    def sentences(self, text: str) -> list[str]:
        return self.names(text)

    def names(self, text: str) -> list[str]:
        self.characters += len(text)
        self.texts += 1
        return [text]


@pytest.fixture
def language(monkeypatch: pytest.MonkeyPatch) -> _CountingLanguage:
    language = _CountingLanguage()
    monkeypatch.setattr(writing, "load_language", lambda _: (language, ""))
    return language


@pytest.mark.parametrize("thoughts", ["Look at it. ", "Look at all of it first. " * 40])
@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_a_model_of_language_reads_a_limited_number_of_characters(
    language: _CountingLanguage, strategy: str, thoughts: str
) -> None:
    material = Material(steps(*(called(f"step {number}", thoughts=thoughts) for number in range(700))))
    write(WriteRequest(strategy, material, "en_core_web_sm", window=100_000, max_length=8_000), None)
    assert language.characters <= MAX_ANALYSED
    assert language.texts <= 500


def test_the_steps_of_a_usual_summary_are_all_read(language: _CountingLanguage) -> None:
    material = Material(steps(*(called(thoughts="Ask Alice first. ") for _ in range(20))))
    text = write(WriteRequest("structured", material, "x", window=100_000, max_length=8_000), None).draft.text
    assert text
    assert language.texts >= 20


def test_a_model_s_text_is_split_at_sentences_to_its_end(language: _CountingLanguage) -> None:
    split = writing._SummaryLanguage(language, float("inf"))
    for _ in range(3 * MAX_ANALYSED // MAX_PIECE):
        split.sentences("x" * MAX_PIECE)
    assert language.characters >= 2 * MAX_ANALYSED
