"""The operations of a file, numbered within their session."""

from typing import NamedTuple

from historyapp.core.importers.base import Append, RewindTo
from historyapp.core.prepared import Prepared


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

    def without_values(self) -> "SourceOperation":
        """The place of the operation. Of its entry only the JSON is kept, whose values take more memory."""
        kind = dumped = ""
        if isinstance(self.operation, Append) and self.prepared:
            kind, dumped = self.operation.draft.body.kind, self.prepared.body
        place = RewindTo(self.operation.session, 0)
        return self._replace(operation=place, prepared=None, kind=kind, dumped=dumped)
