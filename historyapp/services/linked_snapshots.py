"""Links outputs to the snapshots of the contexts that they answer, which their metadata names.

What may take long is read before the session is locked: tool definitions may have many MB.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db.models import ExpressionWrapper, F

from historyapp.core import entries as core
from historyapp.core.entries import EntryDraft, ModelOutput
from historyapp.core.formats.tools import maker_of
from historyapp.core.usage import usage_of
from historyapp.models import Session, Snapshot
from historyapp.models.fields import PackedText, read_json, uuid_value
from historyapp.models.run_sql import run_sql_for_each
from historyapp.services.corrections import BilledCall, update_corrections

MAX_TOKENS = 2**31 - 1
"""The largest value of the table's columns."""
_TYPE = re.compile(r'"type": ?"(\w{1,64})"')
_LINK = (
    # The session is in the condition too, so that PostgreSQL searches one partition.
    "UPDATE historyapp_snapshot SET output_position = %s, billed = %s WHERE session_id = %s AND id = %s"
)


@dataclass(frozen=True, slots=True)
class NamedSnapshot:
    """The used columns of a snapshot that an output names."""

    id: UUID
    model: str
    estimated: int
    factor: float
    is_whole: bool
    """Whether the usage of its model call covers the context and nothing else. Not read without usage."""


NO_SNAPSHOTS: Mapping[UUID, NamedSnapshot] = MappingProxyType({})


def named_snapshots(session_id: UUID, drafts: Iterable[EntryDraft]) -> Mapping[UUID, NamedSnapshot]:
    """The snapshots that outputs name and that are not linked yet. Called before the session is locked.

    Usage that covers more than the context, such as a live screen or results of a provider's own tools, does
    not correct estimates.

    Raises:
        Invalid: when the request has read too much, see :func:`historyapp.models.long_rows.count_read`.
    """
    outputs = [draft.metadata for draft in drafts if "snapshot" in draft.metadata and _is_output(draft)]
    if not outputs:
        return NO_SNAPSHOTS
    billed = {_id_in(metadata): usage_of(metadata).input for metadata in outputs[::-1]}
    unlinked = Snapshot.objects.filter(session_id=session_id, output_position=None)
    columns = "pk", "model", "estimated", "factor", "screen_tokens"
    named: dict[UUID, NamedSnapshot] = {}
    rows = unlinked.filter(pk__in=[id for id in billed if id]).values_list(*columns)
    for id, model, estimated, factor, screen in rows:
        is_whole = bool(billed[id]) and not screen and not _has_built_in(session_id, id)
        named[id] = NamedSnapshot(id, model, estimated, factor, is_whole)
    return named


def link_snapshots(
    session: Session, entries: Iterable[core.Entry], named: Mapping[UUID, NamedSnapshot]
) -> None:
    """Links outputs to the snapshots that they name, and corrects later estimates by their usage.

    Runs within the append's transaction, in a few statements. A snapshot is linked once; unknown ids are
    ignored.

    Args:
        named: see :func:`named_snapshots`.
    """
    first: dict[UUID, core.Entry] = {}
    for entry in entries:
        id = _id_in(entry.metadata)
        if id is not None and id in named and isinstance(entry.body, ModelOutput):
            first.setdefault(id, entry)
    # Another append may have linked some since they were read.
    unlinked = Snapshot.objects.filter(session_id=session.pk, output_position=None, pk__in=list(first))
    links, calls = list[tuple[Any, ...]](), list[BilledCall]()
    for id in unlinked.values_list("pk", flat=True):
        entry, snapshot = first[id], named[id]
        billed = min(usage_of(entry.metadata).input, MAX_TOKENS)
        links.append((entry.position, billed or None, uuid_value(session.pk), uuid_value(id)))
        if billed and snapshot.is_whole:
            counted = round(snapshot.estimated / snapshot.factor)
            calls.append(BilledCall(snapshot.model, counted, snapshot.estimated, billed))
    run_sql_for_each(_LINK, links)
    update_corrections(session.project_id, calls)


def _is_output(draft: EntryDraft) -> bool:
    return isinstance(draft.body, ModelOutput)


def _id_in(metadata: Mapping[str, Any]) -> UUID | None:
    """The id of a snapshot in an entry's metadata, or None if there is none or it is not an id."""
    name = metadata.get("snapshot")
    try:
        return UUID(name) if isinstance(name, str) else None
    except ValueError:
        return None


def _has_built_in(session_id: UUID, id: UUID) -> bool:
    """Whether a snapshot's tools include one that a provider runs itself."""
    stored = Snapshot.objects.filter(session_id=session_id, pk=id)
    # As text: parsing long schemas takes many times as long as searching them for types.
    for text in stored.values_list(ExpressionWrapper(F("tools"), PackedText()), flat=True):
        if any(maker_of({"type": kind}) for kind in set(_TYPE.findall(text))):
            return any(map(maker_of, read_json(text)))
    return False
