"""Prepares entries before they are appended."""

from typing import NamedTuple

from historyapp.core.entries import EntryDraft, dump_body
from historyapp.core.errors import Invalid
from historyapp.core.json import MAX_VALUES, dump_json, holds_more_values
from historyapp.core.tokens import entry_tokens


class Prepared(NamedTuple):
    """A draft with everything that can be computed before the session is locked."""

    draft: EntryDraft
    tokens: int
    body: str
    """As stored, in JSON."""
    metadata: str
    """As stored, in JSON."""

    @property
    def size(self) -> int:
        """The stored size in bytes."""
        return len(self.body) + len(self.metadata)


def prepare(draft: EntryDraft, tokens: int | None = None) -> Prepared:
    """A draft, ready to be appended.

    Args:
        tokens: the tokens of the draft's body; None to count them here.

    Raises:
        Invalid: when the entry holds too many JSON values.
    """
    body = dump_json(dump_body(draft.body))
    metadata = dump_json(dict(draft.metadata)) if draft.metadata else "{}"
    is_long = len(body) > MAX_VALUES or len(metadata) > MAX_VALUES  # a shorter text holds fewer values
    if is_long and (holds_more_values(body, MAX_VALUES) or holds_more_values(metadata, MAX_VALUES)):
        raise Invalid(f"An entry contains more than {MAX_VALUES:,} JSON values. Shorten it or split it.")
    return Prepared(draft, entry_tokens(draft.body) if tokens is None else tokens, body, metadata)
