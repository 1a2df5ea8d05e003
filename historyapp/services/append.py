"""Appends to the log. Every write of an agent runs this code, so it is kept fast.

One append costs one read of the session row and one write each for its entries, the steps that they change
and the session row. The cost does not depend on the session's length.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

from django.utils import timezone

from historyapp.core import entries as core
from historyapp.core.actions import with_raw_message_fields
from historyapp.core.embedded_json import shared_value_limit
from historyapp.core.entries import EntryDraft, ModelInput, ModelOutput, Rewind, ToolResults
from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.core.json import dump_json
from historyapp.core.prepared import FailureSearch, Prepared, prepare, with_facts
from historyapp.core.projection import Step, Tail, Totals, advance
from historyapp.core.strips import extend_strip
from historyapp.models import Project, Session
from historyapp.models.changes import ChangeKind
from historyapp.models.compiled import CompiledQuery
from historyapp.models.history import History
from historyapp.models.stored_totals import SHARED
from historyapp.models.transaction_limits import check_time
from historyapp.models.unpaired import UnpairedReason, UnpairedResult, explain_unpaired
from historyapp.services.changes import record_change
from historyapp.services.disk_space import check_disk_space
from historyapp.services.linked_snapshots import (
    NO_SNAPSHOTS,
    NamedSnapshot,
    link_snapshots,
    named_snapshots,
)
from historyapp.services.list_columns import (
    MAX_VALUE,
    extend_duration,
    first_own_at,
    set_list_columns,
    stored_shared,
)
from historyapp.services.packing import pack_in_thread
from historyapp.services.statements import (
    EntryRow,
    indexed_values,
    insert_entries,
    insert_episodes,
    select_session,
    update_episode,
    update_session,
)
from historyapp.services.transactions import held_values, writing

ACTION_IN_FLIGHT = "Action for current cycle already set"
NO_ACTION_IN_FLIGHT = "Cannot register result for cycle without action"
MAX_TOOL_CALLS = 1000
"""The maximum number of tool calls of one output. Each append stores the open tool calls, and each tool
result searches them."""
MAX_IN_APPEND = 10_000
"""The maximum number of tool calls of one append, and of results."""
EXPECTED_MODELS, MAX_UNCHECKED = 512, 1 << 14
"""Characters of totals by model that an entry usually stores, and how many more the entries of one append may
store without a check of the disk. Totals of four models with names of 25 characters take about 350."""
MAX_ID_CHARACTERS = 200_000
"""The maximum total length of the tool call ids of one output as JSON in ASCII, plus 20 characters for each
tool call. Each append stores the ids of the open tool calls again. A single id may be long: gateways put the
signature of a model's reasoning into it."""


@dataclass(frozen=True, slots=True)
class AppendedEntries:
    """The appended entries. ``positions`` has one position for each draft, in the same order."""

    session: Session
    positions: list[int]
    head: int
    entries: list[core.Entry]
    unpaired: list[UnpairedReason] = field(default_factory=list)
    """The reasons why results do not match an open tool call. These results are recorded too."""


def read_session(project: Project, session_id: UUID) -> Session:
    """The session, not locked.

    Raises:
        NotFound: when the project has no such session.
    """
    session = Session.objects.filter(pk=session_id, project=project).first()
    if session is None:
        raise NotFound(f"There is no session {session_id}.")
    return session


def action_in_flight(step: Step) -> Conflict:
    """The error for another action while this step waits for a result."""
    help = f"Step {step.number} is waiting for a result: record that result first."
    return Conflict(ACTION_IN_FLIGHT, help=help)


def no_action_in_flight() -> Conflict:
    """The error for a result that no step is waiting for."""
    return Conflict(NO_ACTION_IN_FLIGHT, help="Record the action first.")


_LOCKED = CompiledQuery(
    lambda id, project: Session.objects.select_for_update(no_key=True).filter(pk=id, project=project),
    UUID(int=1),
    UUID(int=2),
)


def lock_session(project: Project, session_id: UUID, *, to_append: bool = False) -> Session:
    """The session, locked until the transaction ends. ``to_append``: load only the columns that an append
    needs. The lock excludes other writers of the session and its deletion, but not foreign keys to it.

    Raises:
        NotFound: when the project has no such session.
    """
    if to_append:
        session = select_session(project.pk, session_id)
    else:
        session = next(iter(_LOCKED.rows(session_id, project.pk)), None)
    if session is None:
        raise NotFound(f"There is no session {session_id}.")
    return session


def hold_sessions(project: UUID, ids: Collection[UUID]) -> set[UUID]:
    """Keeps sessions from being deleted until the caller's transaction ends. Returns those that exist.

    A purge also deletes texts of its sessions from rows that no foreign key protects, if it sees these rows.
    So a transaction holds the sessions before it stores such a text.
    """
    rows = Session.objects.filter(project=project, pk__in=list(ids)).order_by("pk")
    return set(held_values(rows.values_list("pk", flat=True)))


def append(
    project: Project,
    session_id: UUID,
    drafts: Sequence[EntryDraft],
    *,
    expected_position: int | None = None,
    lenient: bool = False,
) -> AppendedEntries:
    """Appends entries in one transaction.

    Args:
        expected_position: the head that the caller has read; None to append at any head.
        lenient: for imported transcripts. Entries are not checked, and unpaired results are not reported.

    Raises:
        NotFound: when the project has no such session.
        Conflict: when the head is not ``expected_position``, or the session is archived.
        DiskLow: when the disk is nearly full, and the entries would store long totals of many models.
        Invalid: when there are too many tool calls or results, or an entry is not valid: two tool calls have
            the same id, a tool call has no name, or the ids are too long.
    """
    if not lenient:
        _check_numbers(drafts)
    with shared_value_limit():
        prepared = [with_facts(prepare(draft if lenient else complete(draft))) for draft in drafts]
    prepared = list(map(FailureSearch().searched, prepared))
    bodies = pack_in_thread([entry.body for entry in prepared])
    named = NO_SNAPSHOTS if lenient else named_snapshots(session_id, drafts)
    with writing():
        session = lock_session(project, session_id, to_append=True)
        check_position(session, expected_position)
        return append_locked(session, prepared, bodies, named, lenient=lenient)


def complete(draft: EntryDraft) -> EntryDraft:
    """The output with the fields that its raw message contains; see
    :func:`historyapp.core.actions.with_raw_message_fields`."""
    body = draft.body
    if not isinstance(body, ModelOutput) or body.raw_message is None:
        return draft
    return draft._replace(body=with_raw_message_fields(body))


def check_position(session: Session, expected: int | None) -> None:
    """Refuses an append when the head is not ``expected_position``."""
    if expected is not None and expected != session.head:
        raise Conflict(
            f"expected_position is {expected}, but the session's head is {session.head}. "
            "Read what has been appended since and try again.",
            head=session.head,
        )


def append_locked(
    session: Session,
    prepared: Sequence[Prepared],
    bodies: Callable[[], Sequence[str | bytes]] | None = None,
    named: Mapping[UUID, NamedSnapshot] = NO_SNAPSHOTS,
    *,
    lenient: bool = False,
) -> AppendedEntries:
    """Appends to a session that the caller has locked; see :func:`append`.

    Args:
        bodies: returns the bodies as :func:`pack_all` does; None to pack them here.
        named: the snapshots to link, see :func:`historyapp.services.linked_snapshots.named_snapshots`.
    """
    check_open(session)
    now = timezone.now()
    tail = first_tail = session.live_tail
    strip = session.strip
    changed: dict[int, Step] = {}
    entries: list[EntryRow] = []
    unmatched: list[UnpairedResult] = []
    first_position = session.head + 1
    for index, (draft, tokens, body, metadata, texts, facts) in enumerate(prepared):
        check_time()
        entry = core.Entry(
            first_position + index, draft.body, draft.created_at or now, draft.metadata, tokens
        )
        if not lenient:
            _check(draft, tail, index)
        finished_step = None
        if isinstance(draft.body, ModelOutput):
            finished_step = tail.step
            _check_ids(draft.body, index)
        tail, steps, unpaired = advance(tail, entry, texts=texts, facts=facts)
        if finished_step is not None:
            strip = extend_strip(strip, finished_step)
        for step in steps:
            changed[step.anchor] = step
        entries.append(EntryRow(entry, tail.totals, body, metadata))
        if unpaired and not lenient:
            unmatched += [UnpairedResult(entry.position, *result) for result in unpaired]
    if entries:
        _check_growth(tail, len(entries))
        session.strip = strip
        insert_entries(session.pk, entries, bodies() if bodies else None)
        stored_step = first_tail.step
        if stored_step and stored_step.anchor in changed:
            update_episode(session.pk, changed.pop(stored_step.anchor))
        insert_episodes(session.pk, changed.values())
        _write_session(session, tail, [row.entry for row in entries], wake=not lenient)
        record_change(session, ChangeKind.ENTRIES, entries[0].entry.position, entries[-1].entry.position)
        if named:
            link_snapshots(session, [row.entry for row in entries], named)
    written = [row.entry for row in entries]
    if not unmatched:
        return AppendedEntries(session, [entry.position for entry in written], session.head, written, [])
    session.refresh_from_db(fields=["closed_spans", "fork_spans", "tail_start"])
    explained = explain_unpaired(History(session), unmatched)
    return AppendedEntries(session, [entry.position for entry in written], session.head, written, explained)


def _check_numbers(drafts: Sequence[EntryDraft]) -> None:
    """Raises ``Invalid`` for more tool calls or results than can be stored within a short transaction."""
    bodies = [draft.body for draft in drafts]
    numbers = {
        "tool calls": sum([len(body.tool_calls) for body in bodies if isinstance(body, ModelOutput)]),
        "results": sum([len(body.results) for body in bodies if isinstance(body, ToolResults)]),
    }
    for name, number in numbers.items():
        if number > MAX_IN_APPEND:
            raise Invalid(
                f"The entries have {number:,} {name} together. Append at most {MAX_IN_APPEND:,} at once."
            )


def check_open(session: Session) -> None:
    """Refuses to change an archived session."""
    if session.status == Session.Status.ARCHIVED:
        raise Conflict("The session is archived. Set its status to live before appending to it.")


def _check_growth(tail: Tail, number: int) -> None:
    """Raises ``DiskLow`` if the disk is nearly full and the totals by model of these entries take much more
    than the entries may have."""
    models = tail.totals.models
    if number > 1 and len(models) > 2:
        size = len(dump_json(tail.totals.dump()["models"]))
        if number * (size - EXPECTED_MODELS) > MAX_UNCHECKED:
            check_disk_space("Or append fewer entries at once.")


def _check(draft: EntryDraft, tail: Tail, index: int) -> None:
    """Raises ``Invalid`` for an entry that cannot be appended."""
    body = draft.body
    if isinstance(body, ModelOutput):
        _check_tool_calls(body, index)
    elif isinstance(body, ToolResults):
        if tail.step is None:
            raise no_action_in_flight()
    elif isinstance(body, ModelInput):
        _check_images(body, index)
    elif isinstance(body, Rewind):
        raise Invalid(f"entries[{index}] is a rewind. Use POST …/rewinds, which computes its spans.")


def _check_tool_calls(body: ModelOutput, index: int) -> None:
    tool_calls = body.tool_calls
    if len(tool_calls) > MAX_TOOL_CALLS:
        raise Invalid(
            f"entries[{index}] has {len(tool_calls):,} tool calls. Give it at most {MAX_TOOL_CALLS:,}."
        )
    names = [tool_call.name for tool_call in tool_calls] or ([body.use_tool.name] if body.use_tool else [])
    for number, name in enumerate(names):
        if not name.strip():
            path = f"tool_calls[{number}]" if tool_calls else "use_tool"
            raise Invalid(f"entries[{index}].{path} has an empty name. Name the tool that it calls.")
    ids = [tool_call.id for tool_call in tool_calls]
    if len(ids) > 1 and len(set(ids)) < len(ids):
        repeated = Counter(ids).most_common(1)[0][0]
        raise Invalid(
            f"entries[{index}] has two tool calls with the id {repeated!r}. Give each its own id.",
            tool_call_id=repeated,
        )


def _check_ids(body: ModelOutput, index: int) -> None:
    if not body.tool_calls:
        return
    ids = [tool_call.id for tool_call in body.tool_calls]
    length = sum([(len(id) if id.isascii() else len(dump_json(id))) + 20 for id in ids])
    if length > MAX_ID_CHARACTERS:
        raise Invalid(
            f"The ids of the {len(body.tool_calls):,} tool calls of entries[{index}] are too long: their "
            f"lengths, plus 20 for each tool call, add up to {length:,}. Shorten them to at most "
            f"{MAX_ID_CHARACTERS:,}."
        )


def _check_images(body: ModelInput, index: int) -> None:
    for number, part in enumerate(body.content if isinstance(body.content, list) else ()):
        is_image = isinstance(part, dict) and part.get("type") == "image"
        if is_image and not (part.get("url") or part.get("data") or part.get("source")):
            raise Invalid(
                f"entries[{index}].content[{number}] is an image without url or data. Give one of them."
            )


def _write_session(session: Session, tail: Tail, entries: Sequence[core.Entry], *, wake: bool) -> None:
    """Writes the session row after an append. ``wake``: mark it for workers when compression is due."""
    newest, first_at = entries[-1], session.first_entry_at
    if first_at is None and (session.head == 0 or session.forked_from_id is not None):
        first_at = entries[0].created_at
    session.head, session.last_entry_at = newest.position, newest.created_at
    if session.status == Session.Status.FINISHED:
        session.status = Session.Status.LIVE
    stored = indexed_values(session)
    apply_tail(session, tail)
    if session.forked_from_id is not None and session.tail_start > session.fork_position + 1:
        first_at = first_own_at(session, session.lineage())  # a rewind may have cut off the recorded one
    if first_at is not None:
        extend_duration(session, first_at, newest.created_at, tail.totals)
    if wake and not session.compression_due:
        session.compression_due = _is_compression_due(session, tail)
    update_session(session, stored)


def _is_compression_due(session: Session, tail: Tail) -> bool:
    """Whether enough finished steps have accumulated; ``compression.start`` sets both limits."""
    if tail.step is None or tail.step.status == "in_flight":
        return False
    steps, tokens = session.compress_at, session.compress_at_tokens
    by_steps = steps is not None and tail.totals.steps >= steps
    return by_steps or (tokens is not None and tail.totals.tokens >= tokens)


def apply_tail(session: Session, tail: Tail, shared: Totals | None = None) -> None:
    """Copies the totals of the tail to the session row.

    Args:
        shared: the totals of the live entries that a fork shares; None if they have not changed.
    """
    state = tail.dump()
    if session.forked_from_id is not None:
        state[SHARED] = stored_shared(session) if shared is None else shared.dump()
    session.tail = state
    session.steps, session.errors = tail.totals.steps, tail.totals.errors
    session.tokens, session.cost = tail.totals.tokens, min(MAX_VALUE, tail.totals.cost)
    session.revision += 1
    set_list_columns(session, tail)


def as_utc(moment: datetime) -> datetime:
    """A time in UTC. A time without a zone is taken as UTC."""
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
