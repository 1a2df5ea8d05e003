"""The operations of a file, numbered within their session."""

from typing import NamedTuple

from historyapp.core.entries import ToolResults
from historyapp.core.importers.base import Append, RewindTo
from historyapp.core.json_memory import memory_of
from historyapp.core.prepared import Prepared

REWIND_COST = 40
"""A rewind counts as this many entries, because it takes about as long."""
RESULTS_OF_COST = 10
"""This many results count as one more entry."""


class SourceOperation(NamedTuple):
    """An operation of a file with its place in its session."""

    operation: Append | RewindTo
    number: int
    """The number of the operation within the session, from 1."""
    position: int
    """The position of the entry within the file's session."""
    digest: str
    """The digest of this operation and all before it."""
    earlier_digest: str = ""
    """The digest that earlier versions compute, if one of them imported the session; otherwise empty."""
    prepared: Prepared | None = None
    """The entry of an ``Append``."""
    tokens_counted: bool = True
    kind: str = ""
    dumped: str = ""
    """Kind and body of the entry as JSON, if it is kept :meth:`without_values`; empty for a rewind."""

    @property
    def cost(self) -> int:
        """The number of short entries that take about as long to store."""
        if not isinstance(self.operation, Append):
            return REWIND_COST
        body = self.operation.draft.body
        return 1 + (len(body.results) // RESULTS_OF_COST if isinstance(body, ToolResults) else 0)

    @property
    def memory(self) -> int:
        """About the bytes that the entry takes in memory."""
        if self.prepared:
            return self.prepared.memory
        draft = self.operation.draft
        return memory_of(dict(draft.metadata)) if draft else 0

    def without_values(self) -> "SourceOperation":
        """The place of the operation. Of its entry only the JSON is kept, whose values take more memory."""
        kind = dumped = ""
        if isinstance(self.operation, Append) and self.prepared:
            kind, dumped = self.operation.draft.body.kind, self.prepared.body
        place = RewindTo(self.operation.session, 0)
        return self._replace(operation=place, prepared=None, kind=kind, dumped=dumped)
