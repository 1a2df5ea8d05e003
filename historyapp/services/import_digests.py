"""How two readings of a transcript are compared: by a digest of each operation, chained to the one before.

What counts is the content. Where a record stands in its file does not: a blank line in front of a file moves
all the others, and a sub-agent's lines stand elsewhere in a file of its own.
"""

import hashlib
from collections.abc import Mapping

from historyapp.core.importers.base import Operation, RewindTo
from historyapp.core.prepared import Prepared
from historyapp.core.text import dump_json

_PLACES = frozenset({"line", "index", "message", "row"})
"""Fields of ``metadata.source`` that say where a record stands."""
_MARK = "c"
"""Begins the digests of content. Those of earlier versions, which covered the places too, are plain hex."""
_LENGTH = 64


def digest_of(before: str, operation: Operation, prepared: Prepared | None) -> str:
    """A digest of an operation's content, chained to the one before."""
    return (_MARK + _hash(before, operation, prepared, _without_places(prepared)))[:_LENGTH]


def earlier_digest_of(before: str, operation: Operation, prepared: Prepared | None) -> str:
    """The digest that earlier versions stored: of the content and of the places."""
    return _hash(before, operation, prepared, prepared.metadata if prepared else "")


def is_earlier(digest: str) -> bool:
    """Whether an earlier version stored it."""
    return bool(digest) and not digest.startswith(_MARK)


def _hash(before: str, operation: Operation, prepared: Prepared | None, metadata: str) -> str:
    if prepared is not None:
        text = f"{prepared.draft.body.kind}\n{prepared.body}\n{metadata}"
    elif isinstance(operation, RewindTo):
        text = f"rewind to {operation.to_position}: {operation.reason}"
    else:
        text = ""
    return hashlib.sha256(f"{before}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()


def _without_places(prepared: Prepared | None) -> str:
    if prepared is None:
        return ""
    metadata = prepared.draft.metadata
    source = metadata.get("source")
    if not isinstance(source, Mapping) or _PLACES.isdisjoint(source):
        return prepared.metadata
    kept = {name: value for name, value in source.items() if name not in _PLACES}
    return dump_json({**metadata, "source": kept})
