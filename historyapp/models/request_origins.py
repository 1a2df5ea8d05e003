"""Finds the requests that led to outputs, by the same rules as the recorded request of a step.

A request is the snapshot that the output names, or the newest one served directly before the output. Without
a snapshot, it is everything that was live before the output.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Q

from historyapp.core.entries import MemoryNotebook, SystemInstruction
from historyapp.core.lineage import Lineage
from historyapp.core.policies.base import Origin
from historyapp.core.prices import is_same_model
from historyapp.models.episodes import Episode
from historyapp.models.fields import read_fields, uuid_value
from historyapp.models.long_rows import long_rows
from historyapp.models.sessions import Session
from historyapp.models.snapshots import Snapshot
from historyapp.models.sql import as_aware, newest_first

_OUTPUTS = (
    "SELECT position, metadata, created_at FROM historyapp_entry "
    "WHERE session_id = %s AND position IN ({}) ORDER BY position"
)
AT_ONCE = 500
"""Outputs of one query."""
SAME_TEXTS = 50
"""The maximum number of copies of an instruction or a notebook to read."""
OTHER_FORMAT = "it was written in a request of another format"
LIVE_SCREEN = "its request had a live screen"
INSTRUCTION_CHANGED = "the instruction or the notebook has changed since the model wrote it"
COMPACTED = "the agent had compacted its context"


class _LoggedOutput(NamedTuple):
    position: int
    metadata: Mapping[str, Any]
    created_at: datetime


class _Request(NamedTuple):
    """Some columns of a snapshot."""

    pk: UUID
    position: int
    created_at: datetime
    format: str
    model: str
    screen_tokens: int
    sha256: str
    prefix_sha256: str


class RequestOrigins:
    """Finds the requests of live outputs in a lineage.

    Args:
        model: the model that a context is for; empty if unknown.
        is_compacted: whether the agent compacted its context anywhere in the lineage.
    """

    def __init__(
        self, session: Session, lineage: Lineage, format: str, model: str, *, is_compacted: bool
    ) -> None:
        self.session, self.lineage = session, lineage
        self.format, self.model = format, model
        self.is_compacted = is_compacted

    def of(self, outputs: Sequence[int]) -> dict[int, Origin]:
        by_owner = defaultdict[UUID, list[int]](list)
        for position in outputs:
            if session := self.lineage.session_at(position):
                by_owner[UUID(session)].append(position)
        origins, logged = dict[int, Origin](), list[tuple[UUID, _LoggedOutput]]()
        for owner, positions in by_owner.items():
            for start in range(0, len(positions), AT_ONCE):
                for output, snapshot in _with_snapshots(owner, positions[start : start + AT_ONCE]):
                    if snapshot:
                        origins[output.position] = self._of_snapshot(output, snapshot)
                    else:
                        logged.append((owner, output))
        return origins | dict(self._of_log(logged))

    def _of_snapshot(self, output: _LoggedOutput, snapshot: _Request) -> Origin:
        is_other_model = not is_same_model(self.model, snapshot.model or self._model_of(output))
        change = LIVE_SCREEN if snapshot.screen_tokens else ""
        if snapshot.format != self.format:
            change = OTHER_FORMAT
        return Origin(snapshot.prefix_sha256 or snapshot.sha256, change, is_other_model)

    def _of_log(self, outputs: Sequence[tuple[UUID, _LoggedOutput]]) -> Iterator[tuple[int, Origin]]:
        """Origins of outputs without a snapshot. Their requests had everything that was live."""
        if not outputs:
            return
        kinds = ("system_instruction", "memory_notebook")
        since = max(self._same_since(kind) for kind in kinds)
        compacted = self._compacted(outputs) if self.is_compacted else set[int]()
        for _, output in outputs:
            at = output.position
            change = COMPACTED if at in compacted else ""
            if at < since:
                change = INSTRUCTION_CHANGED
            yield at, Origin("", change, not is_same_model(self.model, self._model_of(output)))

    def _model_of(self, output: _LoggedOutput) -> str:
        named = output.metadata.get("model")
        return named if isinstance(named, str) and named else self.session.model

    def _same_since(self, kind: str) -> int:
        """The position of the first entry with the current text of a kind, or 0."""
        since, current = 0, None
        for entry in islice(newest_first(self.lineage, kind, self.session), SAME_TEXTS):
            text = _text_of(entry.body)
            if current is not None and text != current:
                break
            since, current = entry.position, text
        return since

    def _compacted(self, outputs: Sequence[tuple[UUID, _LoggedOutput]]) -> set[int]:
        """The outputs before which the agent had compacted its context."""
        positions = defaultdict[UUID, list[int]](list)
        for owner, output in outputs:
            positions[owner].append(output.position)
        compacted = set[int]()
        for owner, owned in positions.items():
            for start in range(0, len(owned), AT_ONCE):
                rows = Episode.objects.filter(session_id=owner, compactions__gt=0)
                rows = rows.filter(first_position__in=owned[start : start + AT_ONCE])
                compacted.update(rows.values_list("first_position", flat=True))
        return compacted


def _text_of(body: object) -> str:
    match body:
        case SystemInstruction(text=text) | MemoryNotebook(content=text):
            return text
    return ""


def _with_snapshots(owner: UUID, positions: Sequence[int]) -> Iterator[tuple[_LoggedOutput, _Request | None]]:
    """Some outputs of a session, each with the snapshot of its request. Two queries."""
    outputs = _logged_outputs(owner, positions)
    named = {output.position: _id_in(output.metadata) for output in outputs}
    ids = [id for id in named.values() if id]
    before = [output.position - 1 for output in outputs]
    snapshots = Snapshot.objects.filter(session_id=owner).filter(Q(pk__in=ids) | Q(position__in=before))
    by_id, by_position = dict[UUID, _Request](), defaultdict[int, list[_Request]](list)
    for row in snapshots.order_by("-pk").values_list(*_Request._fields):
        snapshot = _Request(*row)
        by_id[snapshot.pk] = snapshot
        by_position[snapshot.position].append(snapshot)
    for output in outputs:
        id = named[output.position]
        # Later snapshots at this position were requested with as_of.
        earlier = [row for row in by_position[output.position - 1] if row.created_at <= output.created_at]
        yield output, by_id.get(id) if id in by_id else next(iter(earlier), None)


def _logged_outputs(owner: UUID, positions: Sequence[int]) -> list[_LoggedOutput]:
    statement = _OUTPUTS.format(", ".join(["%s"] * len(positions)))
    rows = long_rows(statement, [uuid_value(owner), *positions], "position", ("metadata",))
    return [_logged_output(*row) for row in rows]


def _logged_output(position: int, stored: str, created_at: datetime) -> _LoggedOutput:
    """Keeps only the metadata that is used here, because other metadata can be long."""
    return _LoggedOutput(position, read_fields(stored, ("model", "snapshot")), as_aware(created_at))


def _id_in(metadata: Mapping[str, Any]) -> UUID | None:
    """The snapshot that an output names."""
    named = metadata.get("snapshot")
    try:
        return UUID(named) if isinstance(named, str) else None
    except ValueError:
        return None
