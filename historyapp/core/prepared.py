"""Prepares entries before they are appended."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from historyapp.core.conversation import PairedResult, Progress
from historyapp.core.entries import EntryDraft, ModelOutput, ToolResults, dump_body
from historyapp.core.errors import Invalid
from historyapp.core.failures import Check, error_line, likely_failure
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
    """Those of an entry's results, if any have been made or searched."""
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


def with_tokens(prepared: Prepared) -> Prepared:
    """The entry with the tokens of its body counted."""
    return prepared._replace(tokens=entry_tokens(prepared.draft.body))


def with_facts(prepared: Prepared) -> Prepared:
    """The entry with what its step's row shows, if it is an output: commands and patches are read for it."""
    body = prepared.draft.body
    if not isinstance(body, ModelOutput) or prepared.facts is not None:
        return prepared
    return prepared._replace(facts=output_facts(body, prepared.tokens))


class FailureSearch:
    """Looks for failures in the results of consecutive entries, before their session is locked.

    Only results whose calls are in the same entries are searched. Results of earlier calls are searched under
    the lock: there are at most 50.
    """

    def __init__(self) -> None:
        self._checks: Mapping[str, Check] = {}
        """Those of the newest output."""
        self._progress = Progress()
        self._has_error = False
        """Whether the step has a reported error. Only the line of the first one is shown."""

    def searched(self, prepared: Prepared) -> Prepared:
        """The next entry, with what was found in its results. An output must have its facts."""
        body = prepared.draft.body
        if isinstance(body, ModelOutput):
            self._checks, self._has_error = prepared.facts.checks if prepared.facts else {}, False
            self._progress = Progress.begin(body)
        elif isinstance(body, ToolResults) and self._checks:
            self._progress, answered = self._progress.add_results(body.results)
            known = prepared.texts or [ResultTexts()] * len(answered)
            return prepared._replace(texts=list(map(self._searched, answered, known)))
        return prepared

    def _searched(self, answered: PairedResult, known: ResultTexts) -> ResultTexts:
        result, calls = answered
        if calls and result.status == "error" and not self._has_error:
            self._has_error = True
            return known._replace(error_line=error_line(result, known.returned))
        check = self._checks.get(calls[0]) if calls else None
        return (
            known._replace(checked=(check, likely_failure(result, check, known.returned))) if check else known
        )
