"""The recorded request of a step: its messages and its tokens."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from django.utils.functional import cached_property

from historyapp.core import entries as core
from historyapp.core.content import plain_text
from historyapp.core.conversation import INSTRUCTING
from historyapp.core.errors import Conflict
from historyapp.core.formats import format_named
from historyapp.core.formats.base import Format, Role
from historyapp.core.formats.openai_responses import OPENAI_RESPONSES
from historyapp.core.json import dump_json
from historyapp.core.manifest import Manifest, Segment
from historyapp.core.request_tokens import (
    BEGINNINGS,
    MIN_JUMP,
    Part,
    Reason,
    RequestTokens,
    count_request,
    part_of,
)
from historyapp.core.sent_tokens import entry_tokens, factor_for, output_tokens
from historyapp.core.settings import known_window, window_of
from historyapp.core.text import clean
from historyapp.core.tokens import count_tokens
from historyapp.core.usage import Usage, cost_of, usage_of, window_in
from historyapp.core.windows import LogRow, Window, find_window
from historyapp.models import Entry, Session, Snapshot
from historyapp.models.history import History
from historyapp.models.sql import newest_or_oldest, window_rows
from historyapp.services.figures.largest_input import largest_input
from historyapp.services.figures.largest_request import largest_request
from historyapp.services.prices import price_list
from historyapp.services.recorded.windows import newest_window
from historyapp.services.snapshots import rebuild_request

Source = Literal["snapshot", "served", "transcript", "log"]
"""The source of a request. ``snapshot``: the output names its snapshot. ``served``: a snapshot was served
just before the output. ``transcript``: it is rebuilt from an imported transcript. ``log``: it was not
recorded, so it is everything that was live."""
WINDOW_MARGIN = 1.25
"""Entries are read up to this multiple of the model's window, because token counts are estimates."""

REMOVALS: tuple[Reason, ...] = (*BEGINNINGS, "cleared", "removed")
"""The reasons for which a request may lack tokens that the request before it had."""


@dataclass(frozen=True)
class RecordedRequest:
    """The request to which the model responded with one step."""

    step: int
    output: LogRow
    """The model's response to the request, without its body."""
    source: Source
    model: str
    """The model's name; empty if unknown."""
    run: History
    """The history with the step."""
    history: History
    """The history just before the step."""
    window: Window
    instruction: core.Entry | None
    notebook: core.Entry | None
    tokens: RequestTokens
    snapshot: Snapshot | None = None

    @property
    def first_step(self) -> int:
        """The oldest step in the request; ``step`` itself if there is none."""
        oldest = next((row.position for row in self.window.rows if row.kind == "model_output"), None)
        return self.step if oldest is None else self.step_at(oldest)

    def step_at(self, position: int) -> int:
        """The number of the step to which an entry of the window belongs; 0 before the first step."""
        outputs = self.window.outputs
        return self.step - 1 - (len(outputs) - bisect_right(outputs, position))

    @property
    def reported(self) -> Usage | None:
        return self.tokens.reported

    @property
    def removed(self) -> int:
        """The tokens that were removed just before the request although the log does not say so; otherwise
        0."""
        jumps = (jump for jump in self.tokens.jumps if jump.position == self.output.position)
        removed = sum(jump.tokens for jump in jumps if jump.reason in REMOVALS and jump.tokens < 0)
        return -removed if self.removal in ("cleared", "removed") or removed < -MIN_JUMP else 0

    @property
    def beginning(self) -> Reason | None:
        """Why a window begins with this request; None if it continues one, or if the log names no reason."""
        jumps = (jump for jump in self.tokens.jumps if jump.position == self.output.position)
        return next((jump.reason for jump in jumps if jump.reason in BEGINNINGS), None)

    @property
    def removal(self) -> Reason | None:
        """Why tokens were removed just before the request; None if there is no sign that they were."""
        jumps = (jump for jump in self.tokens.jumps if jump.position == self.output.position)
        return next((jump.reason for jump in jumps if jump.reason in REMOVALS and jump.tokens < 0), None)

    @property
    def total(self) -> int:
        """The input tokens as billed, otherwise as Playhead counts them from the last bill on."""
        return self.reported.input if self.reported else self.tokens.expected + self.tokens.last_difference

    @property
    def is_estimated(self) -> bool:
        """Whether Playhead's count includes what is not in the log: that of a snapshot, and after a reported
        request."""
        return self.snapshot is not None or self.tokens.anchor is not None

    def tokens_of(self, row: LogRow) -> int:
        """The tokens of an entry of the request, counted as those of the request's parts."""
        if self.snapshot:
            return row.tokens
        if row.kind == "model_output" and row.position < self.newest_prompt:
            return output_tokens(row, self.model)[1]
        return entry_tokens(row, self.model)

    @cached_property
    def newest_prompt(self) -> int:
        """The position of the newest input of a person in the request; 0 if there is none."""
        prompts = (row.position for row in reversed(self.window.rows) if part_of(row) == "person")
        return next(prompts, 0)

    @cached_property
    def largest(self) -> int:
        """The largest billed input of the whole run, see :func:`largest_request`; 0 if there is none.

        The overview has the same figure: a later request shows that the window was larger all the time.
        """
        return largest_request(self.run, self.model, largest_input(self.run))

    @property
    def model_window(self) -> int | None:
        """The model's window in tokens; None if unknown."""
        return known_window(self.model, self.largest, self.recorded_window)

    @cached_property
    def recorded_window(self) -> int:
        """The model's window as the agent recorded it with this step or, of the same model, before it; 0 if
        it did not."""
        recorded = window_in(self.output.metadata)
        return recorded or newest_window(self.history.lineage, self.model, self.run.session.model)

    @property
    def billed(self) -> int | None:
        """The cost of the model call in millionths of a dollar, as reported or by the price list."""
        return billed_cost(self.output, self.model)


def recorded_request(
    history: History, number: int, known_output: core.Entry | None = None
) -> RecordedRequest:
    """The request that led to a live step. The cost depends on the model's window, not on the session's
    length.

    Args:
        known_output: the step's output, if the caller has read it.

    Raises:
        NotFound: when there is no such step.
    """
    if known_output is None:
        output = _output(history, history.row(number).first_position)
    else:
        position, _, created_at, metadata, size = known_output
        output = LogRow(position, "model_output", created_at, size, metadata, {})
    before = History(history.session, output.position - 1)
    model = model_of(history, output)
    snapshot, source = _snapshot(history, output)
    tokens = max(window_of(model), usage_of(output.metadata).input) * WINDOW_MARGIN / factor_for(model)
    window = find_window(window_rows(before.lineage), round(tokens))
    session = history.session
    instruction = newest_or_oldest(before.lineage, "system_instruction", session, newest=True)
    notebook = newest_or_oldest(before.lineage, "memory_notebook", session, newest=True)
    if snapshot:
        counted = _count_snapshot(snapshot, output)
    else:
        fixed: dict[Part, int] = {
            "instruction": instruction.tokens if instruction else 0,
            "notebook": notebook.tokens if notebook else 0,
            "summary": sum(count_tokens(item_text(item)) for item in window.replacement),
        }
        counted = count_request(window.rows, fixed, output, model)
    return RecordedRequest(
        step=number,
        output=output,
        source=source,
        model=model,
        run=history,
        history=before,
        window=window,
        instruction=instruction,
        notebook=notebook,
        tokens=counted,
        snapshot=snapshot,
    )


def output_of_step(history: History, number: int) -> LogRow:
    """The output of a live step with its metadata, without its body.

    Raises:
        NotFound: when there is no such step.
    """
    return _output(history, history.row(number).first_position)


def billed_cost(output: LogRow, model: str) -> int | None:
    """The cost of a model call in millionths of a dollar, as reported or by the price list; None if
    unknown."""
    if cost := cost_of(output.metadata):
        return cost
    usage = usage_of(output.metadata)
    price = price_list().of(model) if usage.input else None
    return price.of_request(usage) if price else None


def model_of(history: History, output: LogRow) -> str:
    """The model that wrote an output, otherwise the session's; may be empty. NUL characters are replaced,
    because a query cannot contain them."""
    model = output.metadata.get("model")
    return clean(model) if isinstance(model, str) and model else history.session.model


def _output(history: History, position: int) -> LogRow:
    """The output at a position, without its body."""
    rows = Entry.objects.defer("body").live(
        history.lineage, after=position - 1, before=position + 1, kinds=("model_output",), limit=1
    )
    for entry in rows:
        return LogRow(position, entry.kind, entry.created_at, entry.tokens, entry.metadata, {})
    raise Conflict("The step's output is not in the log. Rebuild the projections.")


def _snapshot(history: History, output: LogRow) -> tuple[Snapshot | None, Source]:
    """The snapshot of the request, and the request's source."""
    owner = history.lineage.session_at(output.position)
    snapshots = Snapshot.objects.filter(session_id=UUID(owner)) if owner else Snapshot.objects.none()
    snapshot_id = output.metadata.get("snapshot")
    try:
        snapshot = snapshots.filter(pk=UUID(snapshot_id)).first() if isinstance(snapshot_id, str) else None
    except ValueError:
        snapshot = None
    if snapshot:
        return snapshot, "snapshot"
    # Snapshots that were created after the output belong to requests with as_of.
    earlier = snapshots.filter(position=output.position - 1, created_at__lte=output.created_at)
    if served := earlier.order_by("-pk").first():
        return served, "served"
    source = output.metadata.get("source")
    return None, "transcript" if isinstance(source, Mapping) else "log"


def _count_snapshot(snapshot: Snapshot, output: LogRow) -> RequestTokens:
    """The tokens of a request that is known in full, by the parts of its manifest."""
    parts: dict[Part, int] = {}
    for segment in Manifest.model_validate(snapshot.manifest).segments:
        part = part_of_segment(segment)
        parts[part] = parts.get(part, 0) + segment.tokens
    usage = usage_of(output.metadata)
    return RequestTokens(parts, usage if usage.input else None, None)


def part_of_segment(segment: Segment) -> Part:
    """The part of a request to which a segment of a manifest belongs."""
    names: dict[str, Part] = {
        "system": "instruction", "notebook": "notebook", "tools": "tools", "input": "person",
        "step": "steps", "live_screen": "screen", "overhead": "overhead",
    }  # fmt: skip
    return "summary" if segment.form == "summarised" else names[segment.source]


@dataclass(frozen=True, slots=True)
class RequestMessage:
    """One message of a request, with its body."""

    role: Role | Literal["developer"]
    content: Mapping[str, Any]
    """The fields of the entry; for a snapshot, the message as the provider received it."""
    position: int | None = None
    """The position of its entry; None if the message contains several entries."""
    step: int | None = None
    """The step's number, for an output or results."""
    tokens: int | None = None
    """Its tokens in the request, as Playhead counts them."""


def message_count(request: RecordedRequest) -> int:
    """The number of messages in the request."""
    if request.snapshot:
        return len(_snapshot_messages(request.history.session, request.snapshot))
    return len(_fixed_messages(request)) + len(request.window.rows)


def messages(request: RecordedRequest, start: int, count: int) -> list[RequestMessage]:
    """``count`` messages of the request from index ``start``. Reads only their bodies, except for a
    snapshot."""
    if request.snapshot:
        return _snapshot_messages(request.history.session, request.snapshot)[start : start + count]
    fixed = _fixed_messages(request)
    selected = fixed[start : start + count]
    offset = max(0, start - len(fixed))
    return [*selected, *_logged_messages(request, offset, count - len(selected))]


def _fixed_messages(request: RecordedRequest) -> list[RequestMessage]:
    """The instruction, the notebook and the items that replaced the history."""
    fixed = []
    for entry in filter(None, (request.instruction, request.notebook)):
        body = {"kind": entry.kind, **entry.body.model_dump(exclude_defaults=True)}
        tokens = round(entry.tokens * factor_for(request.model))
        fixed.append(RequestMessage("system", body, entry.position, tokens=tokens))
    position = request.window.replaced_by
    return fixed + [  # only Codex records the items
        RequestMessage(_role_of(item, OPENAI_RESPONSES), dict(item), position)
        for item in request.window.replacement
    ]


def _role_of(item: Mapping[str, Any], format: Format) -> Role | Literal["developer"]:
    return "developer" if item.get("role") == "developer" else format.role_of(item)


def _logged_messages(request: RecordedRequest, start: int, count: int) -> list[RequestMessage]:
    rows = request.window.rows[start : start + count] if count > 0 else ()
    if not rows:
        return []
    positions = {row.position for row in rows}
    entries = Entry.objects.live(
        request.history.lineage,
        after=min(positions) - 1,
        before=max(positions) + 1,
        kinds={row.kind for row in rows},
    )
    entries_by_position = {entry.position: entry for entry in entries if entry.position in positions}
    roles: dict[str, Literal["assistant", "tool"]] = {"model_output": "assistant", "tool_results": "tool"}
    instructing: dict[str, Literal["system", "developer"]] = {name: name for name in INSTRUCTING}
    logged_messages = []
    for row in rows:
        entry = entries_by_position[row.position]
        role = roles.get(row.kind) or instructing.get(row.channel) or "user"
        number = request.step_at(row.position) or None if row.kind in roles else None
        logged_messages.append(
            RequestMessage(
                role, {"kind": row.kind, **entry.body}, row.position, number, request.tokens_of(row)
            )
        )
    return logged_messages


def _snapshot_messages(session: Session, snapshot: Snapshot) -> list[RequestMessage]:
    owner = session if snapshot.session_id == session.pk else Session.objects.get(pk=snapshot.session_id)
    request, format = rebuild_request(owner, snapshot).request, format_named(snapshot.format)
    fixed = {name: value for name, value in request.items() if name != format.items_field}
    items = [RequestMessage(_role_of(item, format), item) for item in format.items_in(request)]
    return [*(RequestMessage("system", {name: value}) for name, value in fixed.items()), *items]


def item_text(item: Mapping[str, Any]) -> str:
    """The text of an item that replaced the history; empty for encrypted parts."""
    if "content" in item:
        return plain_text(item["content"])
    return "" if "encrypted_content" in item else dump_json(item)
