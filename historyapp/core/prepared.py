"""Prepares entries before they are appended."""

from collections.abc import Sequence
from typing import NamedTuple

from historyapp.core.entries import EntryDraft, ModelOutput, ToolResults, dump_body
from historyapp.core.errors import Invalid
from historyapp.core.json import MAX_CONTAINERS, MAX_VALUES, dump_json
from historyapp.core.json_counts import holds_more_containers, holds_more_values
from historyapp.core.json_memory import memory_with_values
from historyapp.core.output_facts import OutputFacts, output_facts
from historyapp.core.result_previews import ResultTexts, previewed_text
from historyapp.core.results import returned_text
from historyapp.core.tokens import entry_tokens

_LONG = 100_000
"""Characters of a stored body. The texts of a longer one are made before the transaction."""


class Prepared(NamedTuple):
    """A draft with everything that can be computed before the session is locked."""

    draft: EntryDraft
    tokens: int
    body: str
    """As stored, in JSON."""
    metadata: str
    """As stored, in JSON."""
    texts: Sequence[ResultTexts] = ()
    """Those of results that are long or not texts; empty for other entries."""
    facts: OutputFacts | None = None
    """Of an output, if they have been found."""

    @property
    def size(self) -> int:
        """The stored size in bytes."""
        return len(self.body) + len(self.metadata)

    @property
    def memory(self) -> int:
        """About the bytes that the entry takes in memory."""
        return memory_with_values(self.body) + memory_with_values(self.metadata)


def prepare(draft: EntryDraft, tokens: int | None = None) -> Prepared:
    """A draft, ready to be appended.

    Args:
        tokens: the tokens of the draft's body; None to count them here.

    Raises:
        Invalid: when the entry holds too many JSON values, or lists and objects.
    """
    body = dump_json(dump_body(draft.body))
    metadata = dump_json(dict(draft.metadata)) if draft.metadata else "{}"
    _check_values(body)
    _check_values(metadata)
    prepared = Prepared(draft, entry_tokens(draft.body) if tokens is None else tokens, body, metadata)
    return with_texts(prepared)


def _check_values(dumped: str) -> None:
    if len(dumped) <= MAX_CONTAINERS:  # a shorter text holds fewer values
        return
    if holds_more_values(dumped, MAX_VALUES):
        raise Invalid(f"An entry contains more than {MAX_VALUES:,} JSON values. Shorten it or split it.")
    if holds_more_containers(dumped, MAX_CONTAINERS):
        raise Invalid(
            f"An entry contains more than {MAX_CONTAINERS:,} lists and objects. Shorten it or split it."
        )


def with_texts(prepared: Prepared) -> Prepared:
    """The entry with the texts of its results that take too long to make for a transaction."""
    body = prepared.draft.body
    if not isinstance(body, ToolResults) or prepared.texts:
        return prepared
    is_long = len(prepared.body) > _LONG
    if not is_long and all(isinstance(result.outputs, str | None) for result in body.results):
        return prepared
    texts = [
        ResultTexts(
            returned_text(result) if is_long else None,
            previewed_text(result) if result.status == "success" else None,
        )
        for result in body.results
    ]
    return prepared._replace(texts=texts)


def with_facts(prepared: Prepared) -> Prepared:
    """The entry with what its step's row shows, if it is an output: commands and patches are read for it."""
    body = prepared.draft.body
    if not isinstance(body, ModelOutput) or prepared.facts is not None:
        return prepared
    return prepared._replace(facts=output_facts(body, prepared.tokens))
