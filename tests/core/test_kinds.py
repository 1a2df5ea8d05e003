"""Rules for every kind of entry: its class defines what a model and a person read."""

import pytest

from historyapp.core.content import plain_text
from historyapp.core.conversation import InputMessage
from historyapp.core.entries import INPUT_KINDS, KINDS, STEP_KINDS, dump_body, load_body
from historyapp.core.episodes import conversation_parts
from historyapp.core.exporters.base import ExportSession
from historyapp.core.exporters.markdown import MARKDOWN
from historyapp.core.exporters.playhead_jsonl import PLAYHEAD_JSONL
from historyapp.core.importers import IMPORTERS
from historyapp.core.policies import POLICIES
from historyapp.core.tokens import entry_tokens
from tests.core.entries import sample, session
from tests.core.importers.reading import bodies, read
from tests.core.policies.past import MemoryPast
from tests.core.policies.test_contract import choose, request_of

EVERY = pytest.mark.parametrize("kind", KINDS)
INPUTS = pytest.mark.parametrize("kind", INPUT_KINDS)
WORDS = "the garden wall"


@EVERY
def test_a_body_is_stored_without_its_kind_and_loaded_again(kind: str) -> None:
    stored = dump_body(sample(kind))
    assert "kind" not in stored
    assert load_body(kind, stored) == sample(kind)
    assert len(kind) <= 20  # of its column


@EVERY
def test_an_export_can_be_imported(kind: str) -> None:
    entries = session(sample("model_output"), sample(kind))
    text = "".join(PLAYHEAD_JSONL.write(ExportSession("s", entries, created_at=entries[0].created_at)))
    if kind != "rewind":  # which an importer reads as an operation
        assert bodies(read(IMPORTERS["playhead_jsonl"], text)) == [entry.body for entry in entries]


@EVERY
def test_every_kind_has_a_heading_for_people(kind: str) -> None:
    assert sample(kind).heading.strip()


@INPUTS
def test_a_model_reads_an_input_between_two_steps(kind: str) -> None:
    [aside] = conversation_parts(session(sample(kind, WORDS)))
    assert isinstance(aside, InputMessage)
    assert WORDS in plain_text(aside.content)


@INPUTS
def test_an_input_costs_tokens(kind: str) -> None:
    assert entry_tokens(sample(kind, WORDS)) > entry_tokens(sample(kind, "x")) > 0


@INPUTS
@pytest.mark.parametrize("policy", POLICIES)
def test_an_input_is_in_every_context(policy: str, kind: str) -> None:
    entries = session(sample("model_output"), sample(kind, WORDS))
    assert WORDS in str(request_of(choose(policy, MemoryPast(entries))))


@INPUTS
def test_an_input_is_in_the_markdown_export(kind: str) -> None:
    text = "".join(MARKDOWN.write(ExportSession("s", session(sample(kind, WORDS)))))
    assert WORDS in text


def test_no_input_belongs_to_a_step() -> None:
    assert not set(INPUT_KINDS) & set(STEP_KINDS)


def test_every_kind_can_be_loaded_and_no_other() -> None:
    for kind in KINDS:
        data = dump_body(sample(kind))
        assert load_body(kind, data) == sample(kind)
        with pytest.raises(ValueError, match="Extra inputs"):
            load_body(kind, {**data, "surprise": 1})
    with pytest.raises(ValueError, match="kind"):
        load_body("message", {})
