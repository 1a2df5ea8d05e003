"""Digests of the operations of an imported session, by which the next import finds what it has stored."""

import hashlib
from collections.abc import Mapping

from historyapp.core.importers.base import Append, RewindTo
from historyapp.core.json import dump_json
from historyapp.core.prepared import Prepared
from historyapp.core.recorded_diffs import RECORDED_DIFFS

_ADDED_FIELDS = {"condensed", "hosted", "resumed", "clearable", "window"}
_LOCATION_FIELDS = frozenset({"line", "index", "message", "row", *_ADDED_FIELDS})
"""Fields of ``metadata.source`` that say where a record is in the file. Digests do not include them: a blank
line at the top of a file changes all of them, and they differ between a sub-agent's own file and its
parent's. Earlier versions did not read ``_ADDED_FIELDS``, nor recorded diffs. Files that they imported can be
imported again."""
DIGEST_PREFIX = "c"
"""The prefix of this version's digests. Digests of earlier versions include ``_LOCATION_FIELDS`` and are
plain hex."""
_DIGEST_LENGTH = 64


def digest(before: str, operation: Append | RewindTo, prepared: Prepared | None) -> str:
    """The digest of an operation's content, chained to the digest before it."""
    metadata = ""
    if prepared is not None:
        draft_metadata, metadata = prepared.draft.metadata, prepared.metadata
        kept = {name: value for name, value in draft_metadata.items() if name != RECORDED_DIFFS}
        source = kept.get("source")
        if isinstance(source, Mapping) and not _LOCATION_FIELDS.isdisjoint(source):
            kept["source"] = {name: value for name, value in source.items() if name not in _LOCATION_FIELDS}
        if kept != draft_metadata:
            metadata = dump_json(kept)
    return (DIGEST_PREFIX + _hash(before, operation, prepared, metadata))[:_DIGEST_LENGTH]


def earlier_digest(before: str, operation: Append | RewindTo, prepared: Prepared | None) -> str:
    """The digest that earlier versions stored, which includes :data:`_LOCATION_FIELDS`."""
    return _hash(before, operation, prepared, prepared.metadata if prepared else "")


def _hash(before: str, operation: Append | RewindTo, prepared: Prepared | None, metadata: str) -> str:
    """The digest of an operation and of all operations before it."""
    text = ""
    if prepared is not None:
        text = f"{prepared.draft.body.kind}\n{prepared.body}\n{metadata}"
    elif isinstance(operation, RewindTo):
        text = f"rewind to {operation.to_position}: {operation.reason}"
    return hashlib.sha256(f"{before}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()
