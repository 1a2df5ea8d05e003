"""The changes of a recorded request since the step before, and their effect on the provider's cache."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, NamedTuple

from historyapp.core.context_diff import CacheEffect, cache_effect, diff_prefix, first_changed, is_missed
from historyapp.core.entries import text_of
from historyapp.core.formats import prefix_bytes
from historyapp.core.json import dump_json
from historyapp.core.manifest import Manifest
from historyapp.core.request_tokens import Part, count_request, part_of
from historyapp.core.sent_tokens import factor_for
from historyapp.core.usage import HOUR, Usage, cache_lifetime_of, usage_of
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
"""Where two requests first differ. ``end``: the later one only adds to the earlier one. ``instruction``: its
instruction has changed. ``history``: its history was replaced or chosen again. ``removed``: something was
removed, and the log does not say what, or the thoughts of an earlier turn."""
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
    """The first byte that differs; None if unknown, or if a rebuilt request only adds to the earlier one."""
    part: ChangedPart | None
    """The part with that byte, or None."""
    new: tuple[LogRow, ...]
    """Entries that were not in the request of the step before."""
    shared: int
    """The tokens of the beginning that both requests share."""
    cache: CacheEffect
    """The most that a cache could save."""
    cached_cost: int | None
    """The cost of the model call in millionths of a dollar if a cache holds the whole shared part; None if
    the price or the usage is unknown."""
    missed: int | None
    """The tokens of the shared beginning that the provider did not read from its cache; None if it reported
    no usage."""
    pause: timedelta
    """The time since the step before."""
    cache_lifetime: timedelta | None
    """How long the provider keeps its cache; None if the usage of both model calls does not state it."""

    @property
    def is_missed(self) -> bool:
        """Whether ``missed`` is large enough to be reported."""
        return self.missed is not None and is_missed(self.missed, self.shared)


class Difference(NamedTuple):
    """Where two requests first differ."""

    place: Place
    first_byte: int | None = None
    part: ChangedPart | None = None


def request_changes(request: RecordedRequest) -> RequestChanges | None:
    """The changes since the step before; None at the first step."""
    if request.step < 2:
        return None
    rows = request.window.rows
    outputs = (index for index in reversed(range(len(rows))) if rows[index].kind == "model_output")
    last_output = next(outputs, None)
    if request.snapshot:
        earlier = recorded_request(request.history, request.step - 1)
        if earlier.snapshot:
            return _between_snapshots(request, request.snapshot, earlier, earlier.snapshot, last_output)
    fixed = max([entry.position for entry in (request.instruction, request.notebook) if entry], default=0)
    if last_output is None or max(request.window.changed_at, fixed) > rows[last_output].position:
        return _between_rebuilt(request, recorded_request(request.history, request.step - 1))
    return _since_output(request, last_output)


def _since_output(request: RecordedRequest, last_output: int) -> RequestChanges:
    """The changes of a request that continues the request of the step before.

    Args:
        last_output: the index of the output of the step before in the window.
    """
    rows, output = request.window.rows, request.window.rows[last_output]
    shared = usage_of(output.metadata).input
    if not shared:
        instruction = request.instruction.tokens if request.instruction else 0
        shared = count_request(rows[:last_output], {"instruction": instruction}, None, request.model).expected
    if request.tokens.left_thoughts and not request.removed:
        shared = _before_turn(rows[:last_output]) or shared
        return _changes(request, Difference("removed"), rows[last_output:], shared, output)
    if request.removed:
        read = request.reported.cache_read if request.reported else 0
        return _changes(request, Difference("removed"), rows[last_output:], min(shared, read), output)
    return _changes(request, Difference("end"), rows[last_output:], shared, output)


def _before_turn(rows: Sequence[LogRow]) -> int:
    """The reported input of the first request of the newest turn, which has none of the turn's thoughts."""
    first = 0
    for row in reversed(rows):
        if part_of(row) == "person":
            break
        if row.kind == "model_output":
            first = usage_of(row.metadata).input
    return first


def _between_rebuilt(request: RecordedRequest, earlier: RecordedRequest) -> RequestChanges:
    """The changes after the agent replaced a part of its history. The requests share only their first
    messages."""
    if request.snapshot or earlier.snapshot:  # only one of the requests is known byte for byte
        return _changes(request, Difference("history"), request.window.rows, 0, earlier.output)
    old, new = _keys(earlier), _keys(request)
    pairs = enumerate(zip(old, new, strict=False))
    differing = (index for index, (old_key, new_key) in pairs if old_key != new_key)
    common = next(differing, min(len(old), len(new)))
    part = _part_at(request, common)
    earlier_positions = {row.position for row in earlier.window.rows}
    rows = tuple(row for row in request.window.rows if row.position not in earlier_positions)
    shared = round(
        factor_for(request.model) * sum(message.tokens or 0 for message in messages(request, 0, common))
    )
    if common == len(old):
        return _changes(request, Difference("end"), rows, shared, earlier.output)
    fixed = sum(entry is not None for entry in (request.instruction, request.notebook))
    before_window = fixed + len(request.window.replacement)
    if common >= before_window and "older" in (request.window.begins, earlier.window.begins):
        return _changes(request, Difference("history"), rows, shared, earlier.output)
    old_bytes, new_bytes = (
        b"".join(_bytes(message) for message in messages(side, 0, common + 1)) for side in (earlier, request)
    )
    first_byte = diff_prefix(old_bytes, new_bytes).first_difference
    place: Place = "instruction" if part and part.part == "instruction" else "history"
    return _changes(request, Difference(place, first_byte, part), rows, shared, earlier.output)


def _keys(request: RecordedRequest) -> list[tuple[int | None, int]]:
    """A key for each message of a rebuilt request. Equal messages have equal keys."""
    fixed = [(entry.position, 0) for entry in (request.instruction, request.notebook) if entry]
    replaced_by = request.window.replaced_by
    items = [(replaced_by, number) for number in range(len(request.window.replacement))]
    return [*fixed, *items, *((row.position, 0) for row in request.window.rows)]


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
    """The bytes by which messages of rebuilt requests are compared: the text, or the whole content if it has
    other parts."""
    match message.content:
        case {"text": str(text), "kind": "system_instruction" | "memory_notebook"}:
            pass
        case {"content": content}:
            text = text_of(content)
        case content:
            text = dump_json(content)
    return text.encode("utf-8", "surrogatepass")


def _between_snapshots(
    request: RecordedRequest,
    later: Snapshot,
    previous: RecordedRequest,
    earlier: Snapshot,
    last_output: int | None,
) -> RequestChanges:
    """The changes between two requests that are known byte for byte."""
    snapshots = (earlier, later)
    owned = ((Session.objects.get(pk=snapshot.session_id), snapshot) for snapshot in snapshots)
    old, new = (prefix_bytes(rebuild_request(owner, snapshot).request) for owner, snapshot in owned)
    diff = diff_prefix(old, new)
    place: Place = "end" if diff.continues else "history"
    instruction = request.instruction.position if request.instruction else None
    manifests = (Manifest.model_validate(snapshot.manifest).segments for snapshot in snapshots)
    segment = first_changed(*manifests)
    part = ChangedPart(part_of_segment(segment), segment.position, segment.step) if segment else None
    is_changed = instruction != (previous.instruction.position if previous.instruction else None)
    if is_changed and place != "end" and not (part and part.part == "tools"):  # equal sizes may hide a change
        place, part = "instruction", ChangedPart("instruction", instruction, None)
    new_rows = request.window.rows[last_output or 0 :]
    shared = round(request.total * diff.share)
    return _changes(
        request, Difference(place, diff.first_difference, part), new_rows, shared, previous.output
    )


def _changes(
    request: RecordedRequest,
    difference: Difference,
    new: tuple[LogRow, ...],
    shared: int,
    previous_output: LogRow,
) -> RequestChanges:
    total, reported = request.total, request.reported
    listed = price_list().of(request.model)
    price = listed.for_request(total) if listed else None
    before, now = map(cache_lifetime_of, (previous_output.metadata, request.output.metadata))
    share = min(1.0, shared / total if total else 0.0)
    effect = cache_effect(total, share, price, for_hour=(now or before) == HOUR)
    cost = None
    if price and reported and effect.saved is not None:
        cost = price.cost(Usage(input=total, output=reported.output)) - effect.saved
    seconds = before or now
    return RequestChanges(
        *difference,
        new=new,
        shared=shared,
        cache=effect,
        cached_cost=cost,
        missed=None if reported is None else max(0, effect.reusable - reported.cache_read),
        pause=request.output.created_at - previous_output.created_at,
        cache_lifetime=timedelta(seconds=seconds) if seconds else None,
    )
