"""What changed in a recorded request since the step before, and the effect on the provider's cache."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, NamedTuple

from historyapp.core.context_diff import CacheEffect, cache_effect, diff_prefix, first_changed, is_missed
from historyapp.core.entries import text_of
from historyapp.core.formats import prefix_bytes
from historyapp.core.json import dump_json
from historyapp.core.manifest import Manifest
from historyapp.core.request_tokens import Part, count_request, factor_for, part_of
from historyapp.core.usage import Usage, usage_of
from historyapp.core.windows import LogRow
from historyapp.models import Session, Snapshot
from historyapp.services.prices import price_list
from historyapp.services.recorded.requests import (
    RecordedRequest,
    RequestMessage,
    messages,
    part_of_segment,
    recorded_request,
)
from historyapp.services.snapshots import rebuild_request

Place = Literal["end", "instruction", "history", "removed"]
"""Where two requests first differ: the later one only adds to the earlier one, its instruction changed, its
history was replaced or chosen again, or something was removed that the log does not name."""
EXPIRES = timedelta(minutes=5)
"""The usual lifetime of providers' caches. Source: Claude documentation, "Prompt caching"."""


class ChangedPart(NamedTuple):
    """The part of a request that contains the first byte that differs."""

    part: Part
    position: int | None
    """The position of its entry."""
    step: int | None
    """The step's number, for an output or results."""


@dataclass(frozen=True, slots=True)
class RequestChanges:
    """A request compared with that of the step before."""

    place: Place
    first_byte: int | None
    """The first byte that differs; None if unknown, and if a rebuilt request only adds to the earlier one."""
    part: ChangedPart | None
    """The part with that byte, or None."""
    new: tuple[LogRow, ...]
    """Entries that were not in the request of the step before."""
    shared: int
    """Tokens of the beginning that both requests share."""
    cache: CacheEffect
    """The maximum that a cache could save."""
    cached_cost: int | None
    """The cost of the model call in millionths of a dollar if a cache holds the whole shared part; None if
    the price or the usage is unknown."""
    missed: int | None
    """Tokens of the shared beginning that the provider did not read from its cache; None if it reported no
    usage."""
    pause: timedelta
    """The time since the step before."""

    @property
    def is_missed(self) -> bool:
        """Whether the provider missed a large enough part of its cache to report it."""
        return self.missed is not None and is_missed(self.missed, self.shared)


class Difference(NamedTuple):
    """Where two requests first differ."""

    place: Place
    first_byte: int | None = None
    part: ChangedPart | None = None


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
    fixed = max([each.position for each in (request.instruction, request.notebook) if each], default=0)
    if last is None or max(request.window.changed_at, fixed) > rows[last].position:
        return _between_rebuilt(request, recorded_request(request.history, request.step - 1))
    return _continued(request, last)


def _continued(request: RecordedRequest, last: int) -> RequestChanges:
    """The request continues that of the step before, whose output is in the window."""
    rows, before = request.window.rows, request.window.rows[last]
    shared = usage_of(before.metadata).input
    if not shared:
        instruction = request.instruction.tokens if request.instruction else 0
        shared = count_request(rows[:last], {"instruction": instruction}, None, request.model).expected
    if request.removed:
        read = request.reported.cache_read if request.reported else 0
        return _changes(request, Difference("removed"), rows[last:], min(shared, read), before)
    return _changes(request, Difference("end"), rows[last:], shared, before)


def _between_rebuilt(request: RecordedRequest, earlier: RecordedRequest) -> RequestChanges:
    """The agent replaced a part of its history, so the requests share only their first messages."""
    if request.snapshot or earlier.snapshot:  # only one of the requests is known byte for byte
        return _changes(request, Difference("history"), request.window.rows, 0, earlier.output)
    old, new = _keys(earlier), _keys(request)
    pairs = enumerate(zip(old, new, strict=False))
    common = next((n for n, (before, after) in pairs if before != after), min(len(old), len(new)))
    part = _part_at(request, common)
    earlier_positions = {row.position for row in earlier.window.rows}
    rows = tuple(row for row in request.window.rows if row.position not in earlier_positions)
    shared = round(
        factor_for(request.model) * sum(message.tokens or 0 for message in messages(request, 0, common))
    )
    if common == len(old):
        return _changes(request, Difference("end"), rows, shared, earlier.output)
    fixed = sum(each is not None for each in (request.instruction, request.notebook))
    before_window = fixed + len(request.window.replacement)
    if common >= before_window and "older" in (request.window.begins, earlier.window.begins):
        return _changes(request, Difference("history"), rows, shared, earlier.output)
    before, after = (
        [_bytes(message) for message in messages(each, 0, common + 1)] for each in (earlier, request)
    )
    first_byte = diff_prefix(b"".join(before), b"".join(after)).first_difference
    place: Place = "instruction" if part and part.part == "instruction" else "history"
    return _changes(request, Difference(place, first_byte, part), rows, shared, earlier.output)


def _keys(request: RecordedRequest) -> list[tuple[int | None, int]]:
    """A key for each message of a rebuilt request. Equal messages have equal keys."""
    entries = [each.position for each in (request.instruction, request.notebook) if each]
    by = request.window.replaced_by
    items = [(by, number) for number in range(len(request.window.replacement))]
    rows = [row.position for row in request.window.rows]
    return [*((position, 0) for position in entries), *items, *((position, 0) for position in rows)]


def _part_at(request: RecordedRequest, number: int) -> ChangedPart | None:
    """The part of a rebuilt request that contains a message; None after the last one."""
    fixed: list[ChangedPart] = []
    if request.instruction:
        fixed.append(ChangedPart("instruction", request.instruction.position, None))
    if request.notebook:
        fixed.append(ChangedPart("notebook", request.notebook.position, None))
    fixed += [ChangedPart("summary", request.window.replaced_by, None)] * len(request.window.replacement)
    if number < len(fixed):
        return fixed[number]
    if number - len(fixed) >= len(request.window.rows):
        return None
    row = request.window.rows[number - len(fixed)]
    part = part_of(row)
    step = request.step_at(row.position) if part in ("assistant", "results") else None
    return ChangedPart(part, row.position, step or None)


def _bytes(message: RequestMessage) -> bytes:
    """The bytes by which a message of a rebuilt request is compared: its text, or all of it if it has other
    parts."""
    match message.content:
        case {"text": str(text), "kind": "system_instruction" | "memory_notebook"}:
            pass
        case {"content": content}:
            text = text_of(content)
        case content:
            text = dump_json(content)
    return text.encode("utf-8", "surrogatepass")


def _between_snapshots(
    request: RecordedRequest, later: Snapshot, before: RecordedRequest, earlier: Snapshot, last: int | None
) -> RequestChanges:
    """Both requests are known byte for byte."""
    owned = ((Session.objects.get(pk=each.session_id), each) for each in (earlier, later))
    old, new = (prefix_bytes(rebuild_request(owner, each).request) for owner, each in owned)
    diff = diff_prefix(old, new)
    place: Place = "end" if diff.continues else "history"
    instruction = request.instruction.position if request.instruction else None
    manifests = (Manifest.model_validate(each.manifest).segments for each in (earlier, later))
    segment = first_changed(*manifests)
    part = ChangedPart(part_of_segment(segment), segment.position, segment.step) if segment else None
    is_changed = instruction != (before.instruction.position if before.instruction else None)
    if is_changed and place != "end" and not (part and part.part == "tools"):  # equal sizes may hide a change
        place, part = "instruction", ChangedPart("instruction", instruction, None)
    new_rows = request.window.rows[last:] if last is not None else request.window.rows
    shared = round(request.total * diff.share)
    return _changes(request, Difference(place, diff.first_difference, part), new_rows, shared, before.output)


def _changes(
    request: RecordedRequest,
    difference: Difference,
    new: tuple[LogRow, ...],
    shared: int,
    before: LogRow,
) -> RequestChanges:
    total, reported = request.total, request.reported
    price = price_list().of(request.model)
    effect = cache_effect(total, min(1.0, shared / total if total else 0.0), price)
    cost = None
    if price and reported and effect.saved is not None:
        cost = price.cost(Usage(input=total, output=reported.output)) - effect.saved
    return RequestChanges(
        *difference,
        new=new,
        shared=shared,
        cache=effect,
        cached_cost=cost,
        missed=None if reported is None else max(0, effect.reusable - reported.cache_read),
        pause=request.output.created_at - before.created_at,
    )
