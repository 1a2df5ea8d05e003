"""What was new in a recorded request: the difference from the step before, and what the cache made of it."""

from dataclasses import dataclass
from typing import Literal

from historyapp.core import entries as core
from historyapp.core.context_diff import CacheEffect, cache_effect, diff_prefix
from historyapp.core.formats import prefix_bytes
from historyapp.core.request_tokens import count_request
from historyapp.core.usage import usage_of
from historyapp.core.windows import LogRow
from historyapp.models import Session, Snapshot
from historyapp.models.sql import outermost
from historyapp.services.prices import price_list
from historyapp.services.recorded import RecordedRequest, recorded_request
from historyapp.services.snapshots import rebuild_request

Place = Literal["end", "instruction", "history"]
"""Where two requests differ first: the later one only goes on, its instruction is another one, or its history
was replaced or chosen anew."""
MISSED, LEAST_MISSED = 0.05, 2_000
"""A miss of the cache that is worth a word: as a share of what it could hold, and in tokens."""
EXPIRES = 5
"""Minutes after which providers' caches commonly forget. Source: Claude documentation, "Prompt caching"."""


@dataclass(frozen=True, slots=True)
class RequestChanges:
    """A request beside that of the step before."""

    place: Place
    first_byte: int | None
    """The first byte that differs; None where the later request only goes on from the end of the earlier."""
    new: tuple[LogRow, ...]
    """Entries that the step before did not have."""
    shared: int
    """Tokens with which both requests begin."""
    cache: CacheEffect
    """What a cache could save at most."""
    missed: int | None
    """Tokens that both requests begin with and that the provider did not read from its cache; None where it
    reported nothing."""
    pause: float
    """Minutes since the step before."""

    @property
    def is_missed(self) -> bool:
        """Whether the provider missed a part of its cache that is worth a word."""
        return bool(self.missed and self.missed > max(LEAST_MISSED, MISSED * self.shared))


def request_changes(request: RecordedRequest) -> RequestChanges | None:
    """What changed since the step before; None at the first step."""
    if request.step < 2:
        return None
    rows = request.window.rows
    last = next((n for n in range(len(rows) - 1, -1, -1) if rows[n].kind == "model_output"), None)
    if request.snapshot:
        earlier = recorded_request(request.history, request.step - 1)
        if earlier.snapshot:
            return _between_snapshots(request, request.snapshot, earlier, earlier.snapshot, last)
    if last is None:
        return _replaced(request)
    return _continued(request, last)


def _continued(request: RecordedRequest, last: int) -> RequestChanges:
    """The window holds the output of the step before: the request goes on from there."""
    rows, before = request.window.rows, request.window.rows[last]
    shared = usage_of(before.metadata).input
    if not shared:
        instruction = request.instruction.tokens if request.instruction else 0
        shared = count_request(rows[:last], {"instruction": instruction}, None, request.model).expected
    place: Place = "end"
    first_byte = None
    if request.instruction and request.instruction.position > before.position:
        place, first_byte = "instruction", _first_byte(request, before.position)
        shared = 0
    return _changes(request, (place, first_byte), rows[last:], shared, before)


def _replaced(request: RecordedRequest) -> RequestChanges:
    """The history was replaced since the step before: at most the instruction is the same."""
    instruction = request.instruction
    first_byte = len(_text(instruction).encode("utf-8", "surrogatepass"))
    shared = request.tokens.parts.get("instruction", 0)
    return _changes(request, ("history", first_byte), request.window.rows, shared, None)


def _first_byte(request: RecordedRequest, position: int) -> int:
    """The first byte at which the instruction differs from the one before a position."""
    session, lineage = request.history.session, request.history.lineage.cut(position - 1)
    earlier = outermost(lineage, "system_instruction", session, newest=True)
    old, new = (_text(entry).encode("utf-8", "surrogatepass") for entry in (earlier, request.instruction))
    return diff_prefix(old, new).first_difference or 0


def _text(entry: core.Entry | None) -> str:
    return entry.body.text if entry and isinstance(entry.body, core.SystemInstruction) else ""


def _between_snapshots(
    request: RecordedRequest, later: Snapshot, before: RecordedRequest, earlier: Snapshot, last: int | None
) -> RequestChanges:
    """Both requests are known byte for byte."""
    old, new = (prefix_bytes(rebuild_request(_owner(each), each).request) for each in (earlier, later))
    diff = diff_prefix(old, new)
    place: Place = "end" if diff.first_difference is None else "history"
    new_rows = request.window.rows[last:] if last is not None else request.window.rows
    shared = round(request.total * diff.share)
    return _changes(request, (place, diff.first_difference), new_rows, shared, before.output)


def _owner(snapshot: Snapshot) -> Session:
    return Session.objects.get(pk=snapshot.session_id)


def _changes(
    request: RecordedRequest,
    where: tuple[Place, int | None],
    new: tuple[LogRow, ...],
    shared: int,
    before: LogRow | None,
) -> RequestChanges:
    total = request.total
    effect = cache_effect(total, min(1.0, shared / total if total else 0.0), price_list().of(request.model))
    reported = request.reported
    missed = None if reported is None else max(0, effect.reusable - reported.cache_read)
    pause = (request.output.created_at - before.created_at).total_seconds() / 60 if before else 0.0
    return RequestChanges(*where, new, shared, effect, missed, max(0.0, pause))
