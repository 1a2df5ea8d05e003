"""The request before a step: the snapshot that was sent, or else the part of the request that the log has."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.entries import DebugLog, EntryDraft, ModelInput, ModelOutput, SystemInstruction, ToolCall
from historyapp.core.errors import NotFound
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.contexts import RequestedContext
from historyapp.services.recorded.changes import RequestChanges, request_changes
from historyapp.services.recorded.notes import notes
from historyapp.services.recorded.requests import RecordedRequest, message_count, messages, recorded_request
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from historyapp.services.snapshots import record_snapshot, serve_context
from tests.services.drafts import ask, draft, ok

AT = datetime(2026, 11, 23, 12, tzinfo=UTC)
MODEL = "gpt-5"


def step(
    number: int, sent: int | None = None, *, at: datetime = AT, read: int = 0, **facts: Any
) -> EntryDraft:
    usage = {"input_tokens": sent, "output_tokens": 8, "input_tokens_details": {"cached_tokens": read}}
    metadata = {"model": MODEL, "source": {"line": number}, **facts} | ({"usage": usage} if sent else {})
    calls = (ToolCall(id=f"call_{number}", name="read", arguments={"path": f"file-{number}.txt"}),)
    return EntryDraft(ModelOutput(tool_calls=calls), at, metadata)


def steps(*sent: int | None) -> Iterator[EntryDraft]:
    for number, tokens in enumerate(sent, 1):
        yield step(number, tokens)
        yield ok(f"call_{number}", f"text of file {number}")


def summary(text: str = "It went well.") -> list[EntryDraft]:
    compacted = draft(DebugLog(category="compaction", message="Conversation compacted"))
    return [compacted, draft(ModelInput(channel="compaction", content=text))]


@pytest.fixture
def session(project: Project) -> Session:
    return create_session(project, names={"title": "a run", "model": MODEL})


def record(session: Session, *drafts: EntryDraft) -> Session:
    append(session.project, session.pk, drafts)
    session.refresh_from_db()
    return session


def seen(session: Session, number: int) -> RecordedRequest:
    history = History(session)
    return recorded_request(history, history.resolve(number))


def positions(request: RecordedRequest) -> list[int]:
    return [row.position for row in request.window.rows]


def compared(request: RecordedRequest) -> RequestChanges:
    changes = request_changes(request)
    assert changes
    return changes


def test_a_request_holds_what_was_live_before_its_step(session: Session) -> None:
    record(session, ask("go"), *steps(None, None, None))
    request = seen(session, 2)
    assert positions(request) == [1, 2, 3]
    assert (request.first_step, request.source, request.model) == (1, "transcript", MODEL)


def test_entries_after_the_step_are_not_in_the_request(session: Session) -> None:
    record(session, ask("go"), *steps(None, None), ask("stop"), step(3))
    assert 6 not in positions(seen(session, 2))
    assert 6 in positions(seen(session, 3))


def test_a_take_is_not_in_the_request(session: Session) -> None:
    record(session, ask("go"), *steps(None, None))
    rewind(session.project, session.pk, Target(to_step=1))
    record(session, step(9))
    assert positions(seen(session, 2)) == [1, 2, 3]


def test_the_request_of_a_fork_has_the_entries_of_its_parent(session: Session) -> None:
    record(session, ask("go"), *steps(None, None, None))
    made = fork(session.project, session.pk, at_step=2)
    made.refresh_from_db()
    record(made, step(9))
    assert positions(seen(made, 2)) == [1, 2, 3]
    assert positions(seen(made, 3)) == [1, 2, 3, 4, 5]


def test_compacted_steps_are_not_in_the_request(session: Session) -> None:
    record(session, ask("go"), *steps(None, None), *summary(), step(3), ok("call_3"), step(4))
    request = seen(session, 3)
    assert positions(request) == [7]
    assert request.window.begins == "compaction"
    assert request.first_step == 3
    assert seen(session, 4).first_step == 3
    assert "The agent had compacted steps 1 to 2 into a summary." in " ".join(notes(request, None))


def test_a_step_that_does_not_exist_has_no_request(session: Session) -> None:
    record(session, ask("go"), step(1))
    with pytest.raises(NotFound):
        recorded_request(History(session), 7)


def test_the_reported_input_is_shown_with_our_count(session: Session) -> None:
    record(session, ask("go"), *steps(12_500, 12_520))
    first, second = seen(session, 1), seen(session, 2)
    assert (first.total, second.total) == (12_500, 12_520)
    assert first.tokens.parts["unseen"] == second.tokens.parts["unseen"]
    assert abs(second.tokens.difference or 0) < 20
    assert "tokens of the request are not recorded: tools and system prompt" in notes(first, None)[1]


def test_unknown_figures_are_reported_as_unknown(session: Session) -> None:
    record(session, ask("go"), *steps(None))
    request = seen(session, 1)
    assert request.reported is None
    assert "unknown" in " ".join(notes(request, request_changes(request)))


def test_a_request_that_continues_shares_all_of_the_previous_one(session: Session) -> None:
    record(session, ask("go"), *steps(12_500, 12_520))
    changes = compared(seen(session, 2))
    assert (changes.place, changes.first_byte, changes.shared) == ("end", None, 12_500)
    assert [row.position for row in changes.new] == [2, 3]


def test_a_new_instruction_breaks_the_cache_at_its_first_new_byte(session: Session) -> None:
    record(session, draft(SystemInstruction(text="You repair.")), ask("go"), *steps(12_500))
    record(session, draft(SystemInstruction(text="You review.")), step(2, 12_520))
    changes = compared(seen(session, 2))
    assert (changes.place, changes.first_byte, changes.shared) == ("instruction", len("You re"), 0)


def test_a_compaction_leaves_only_the_instruction(session: Session) -> None:
    record(session, draft(SystemInstruction(text="You répair.")), ask("go"), *steps(12_500), *summary())
    record(session, step(2, 9_000))
    changes = compared(seen(session, 2))
    assert (changes.place, changes.first_byte) == ("history", len("You répair.".encode()))


def condensed(*ids: int) -> EntryDraft:
    facts = {"condensed": {"first": min(ids), "last": max(ids)}}
    return draft(DebugLog(category="condensation", message=""), source=facts)


def test_a_condensation_differs_at_the_place_of_the_first_forgotten_entry(session: Session) -> None:
    record(session, draft(SystemInstruction(text="You répair.")), ask("go"))
    for number in (1, 2, 3):
        record(session, step(number, 12_500 + number, source={"id": number}), ok(f"call_{number}"))
    record(session, condensed(2, 2), step(4, 9_000))
    request = seen(session, 4)
    changes = compared(request)
    assert request.first_step == 1
    assert [(message.position, message.step) for message in messages(request, 0, 9)] == [
        (1, None), (2, None), (3, 1), (4, 1), (6, 2), (7, 3), (8, 3),
    ]  # fmt: skip
    first = messages(request, 0, 4)
    assert changes.place == "history"
    assert changes.part == ("results", 6, 2)
    text = "You répair.go".encode()
    assert changes.first_byte is not None
    assert changes.first_byte > len(text) + len(str(first[2].content))
    assert [row.position for row in changes.new] == [7, 8]
    assert "in the results of step 2" in " ".join(notes(request, changes))


def test_preserved_messages_do_not_hide_a_compaction(session: Session) -> None:
    kept = {"compactMetadata": {"preservedMessages": {"uuids": ["kept"]}}}
    boundary = draft(DebugLog(category="compaction", message=f"Conversation compacted\n{json.dumps(kept)}"))
    record(session, ask("go"), step(1, 9_000), ok("call_1"), step(2, 9_100, source={"uuid": "kept"}))
    record(session, boundary, *summary()[1:], step(3, 4_000))
    request = seen(session, 3)
    assert positions(request) == [6, 4]
    changes = compared(request)
    assert (changes.place, changes.first_byte, changes.part) == ("history", 0, ("summary", 6, None))


def test_an_unrecorded_removal_is_reported_and_the_cache_shows_the_shared_part(
    session: Session,
) -> None:
    record(session, ask("go"), step(1, 50_000), ok("call_1", "x" * 8_000), step(2, 51_100))
    record(session, ok("call_2"), step(3, 30_000, read=20_000))
    request = seen(session, 3)
    changes = compared(request)
    assert (changes.place, changes.first_byte, changes.part) == ("removed", None, None)
    assert changes.shared == 20_000
    assert not changes.is_missed
    words = " ".join(notes(request, changes))
    assert "What was removed is not recorded." in words
    assert "nothing was removed" not in words


CLAUDE = "claude-opus-4-5"


def test_results_that_claude_code_cleared_are_named(session: Session) -> None:
    record(session, ask("go"), step(1, 20_000, model=CLAUDE))
    for number in range(2, 9):
        read_file = ok(f"call_{number - 1}", "one two three " * 5_000)
        source = {"source": {"clearable": 15_000}}
        sent = 20_000 + (number - 1) * 16_500
        record(session, read_file._replace(metadata=source), step(number, sent, model=CLAUDE))
    record(session, ok("call_8"), step(9, 70_000, model=CLAUDE))
    record(session, ok("call_9"), step(10, 70_100, model=CLAUDE))
    ninth, tenth = seen(session, 9), seen(session, 10)
    cleared = "Claude Code had cleared 4 results of steps 1 to 4, by the rule of its version."
    assert ninth.removal == "cleared"
    assert compared(ninth).place == "removed"
    words = " ".join(notes(ninth, request_changes(ninth)))
    assert cleared in words
    assert "were removed. Claude Code cleared old results." in words
    assert (tenth.removed, compared(tenth).place) == (0, "end")
    assert cleared in " ".join(notes(tenth, request_changes(tenth)))


def resumed() -> EntryDraft:
    return draft(ModelInput(content="go on"), source={"resumed": True})


def test_a_new_process_may_leave_out_texts(session: Session) -> None:
    record(session, ask("go"), step(1, 50_000), ok("call_1"), step(2, 50_020), resumed(), step(3, 40_000))
    request = seen(session, 3)
    words = " ".join(notes(request, request_changes(request)))
    assert compared(request).place == "removed"
    assert "A new process of the agent built this request from its transcript, without other texts." in words
    assert "They were computed again after a new process of the agent." in words


def test_another_model_begins_a_window(session: Session) -> None:
    record(session, ask("go"), step(1, 50_000), ok("call_1"), step(2, 44_000, model="claude-opus-5"))
    request = seen(session, 2)
    words = " ".join(notes(request, request_changes(request)))
    assert request.removal == "model"
    assert "it does not receive the thoughts of the earlier model." in words
    assert "They were computed again after a change of the model." in words


@pytest.mark.parametrize(
    ("facts", "reason"),
    [({}, "A new process of the agent built the request; its system prompt and tools may differ."),
     ({"model": "claude-opus-5"}, "The model has changed, and each model has a cache of its own.")],
)  # fmt: skip
def test_the_beginning_of_a_window_explains_an_unread_cache(
    session: Session, facts: dict[str, Any], reason: str
) -> None:
    before = (ask("go"), step(1, 50_000, read=49_000))
    record(session, *before, ok("call_1"), *([] if facts else [resumed()]), step(2, 50_100, **facts))
    request = seen(session, 2)
    changes = compared(request)
    words = " ".join(notes(request, changes))
    assert (changes.place, changes.is_missed) == ("end", True)
    assert f"from its cache. {reason}" in words
    assert "Nothing else in the log differs from the previous request." in words
    assert "The reason is unknown." not in words


def test_a_new_process_that_changes_little_removes_nothing(session: Session) -> None:
    record(session, ask("go"), step(1, 50_000), ok("call_1"), step(2, 50_020), resumed(), step(3, 49_500))
    request = seen(session, 3)
    assert (request.removed, compared(request).place) == (0, "end")


def test_the_cost_with_a_cache_is_shown_with_the_bill(session: Session) -> None:
    record(session, ask("go"), step(1, 50_000), ok("call_1"), step(2, 50_010, read=10_000))
    request = seen(session, 2)
    changes = compared(request)
    assert request.billed
    assert changes.cached_cost
    assert changes.cached_cost < request.billed
    assert "read from a cache, the model call would cost" in " ".join(notes(request, changes))


def test_without_a_price_the_cost_with_a_cache_is_unknown(session: Session) -> None:
    record(session, ask("go"), step(1, 50_000, model="who"), ok("call_1"), step(2, 50_010, model="who"))
    assert compared(seen(session, 2)).cached_cost is None


def test_a_cache_miss_without_a_known_reason_is_reported_as_unknown(session: Session) -> None:
    later = AT + timedelta(minutes=12)
    record(session, ask("go"), step(1, 50_000), ok("call_1"), step(2, 50_010, at=later))
    request = seen(session, 2)
    changes = compared(request)
    assert changes.is_missed
    assert "The reason is unknown; 12 min 0 s had passed" in " ".join(notes(request, changes))


@pytest.mark.parametrize(("minutes", "is_expired"), [(12, True), (4, False)])
def test_an_expired_cache_is_the_reason_of_a_miss(session: Session, minutes: int, is_expired: bool) -> None:
    first = step(1, 50_000)
    first.metadata["usage"]["cache_creation"] = {"ephemeral_5m_input_tokens": 49_000}
    record(session, ask("go"), first, ok("call_1"), step(2, 50_010, at=AT + timedelta(minutes=minutes)))
    words = " ".join(notes(request := seen(session, 2), compared(request)))
    assert ("The cache lives 5 minutes; 12 min 0 s had passed" in words) is is_expired


def test_a_cache_hit_gets_no_note(session: Session) -> None:
    record(session, ask("go"), step(1, 50_000), ok("call_1"), step(2, 50_010, read=49_920))
    request = seen(session, 2)
    assert not compared(request).is_missed
    assert "did not read" not in " ".join(notes(request, compared(request)))


def test_the_snapshot_that_the_output_names_is_the_request(session: Session) -> None:
    record(session, draft(SystemInstruction(text="You repair.")), ask("go"))
    snapshot = record_snapshot(serve_context(session, RequestedContext()))
    record(session, step(1, 40, snapshot=str(snapshot.pk)))
    request = seen(session, 1)
    assert (request.snapshot, request.source) == (snapshot, "snapshot")
    assert request.tokens.expected == snapshot.estimated
    assert message_count(request) == len(messages(request, 0, 50)) == 2
    assert messages(request, 1, 1)[0].content["content"] == "go"


def test_the_request_is_otherwise_the_newest_snapshot_served_at_the_head(session: Session) -> None:
    record(session, ask("go"))
    record_snapshot(serve_context(session, RequestedContext(policy="masked")))
    newest = record_snapshot(serve_context(session, RequestedContext(policy="live")))
    now = datetime.now(UTC) + timedelta(seconds=1)
    record(session, EntryDraft(ModelOutput(text="done"), now, {"snapshot": "nonsense"}))
    request = seen(session, 1)
    assert (request.snapshot, request.source) == (newest, "served")


def test_a_context_served_later_is_not_the_request(session: Session) -> None:
    record(session, ask("go"), step(1))
    record_snapshot(serve_context(session, RequestedContext(as_of=1)))
    assert seen(session, 1).snapshot is None


def test_two_snapshots_are_compared_byte_by_byte(session: Session) -> None:
    record(session, ask("go"))
    for number in (1, 2):
        snapshot = record_snapshot(serve_context(session, RequestedContext()))
        record(session, step(number, 40, snapshot=str(snapshot.pk)), ok(f"call_{number}"))
    changes = compared(seen(session, 2))
    assert changes.place == "end"
    assert changes.first_byte
    words = " ".join(notes(seen(session, 2), changes))
    assert f"at its end (byte {changes.first_byte:,}), so nothing was removed." in words


def test_two_snapshots_with_other_instructions_differ_in_the_instructions(session: Session) -> None:
    for number, instruction in ((1, "You repair."), (2, "You read.")):
        record(session, draft(SystemInstruction(text=instruction)))
        snapshot = record_snapshot(serve_context(session, RequestedContext()))
        record(session, step(number, 40, snapshot=str(snapshot.pk)), ok(f"call_{number}"))
    changes = compared(seen(session, 2))
    assert changes.first_byte
    assert (changes.place, changes.part) == ("instruction", ("instruction", 4, None))


def test_messages_are_in_the_order_of_the_request_with_their_steps(session: Session) -> None:
    record(session, draft(SystemInstruction(text="You repair.")), ask("go"), *steps(None, None), step(3))
    request = seen(session, 3)
    listed = messages(request, 0, 50)
    assert [(each.role, each.step) for each in listed] == [
        ("system", None), ("user", None), ("assistant", 1), ("tool", 1), ("assistant", 2), ("tool", 2),
    ]  # fmt: skip
    assert message_count(request) == len(listed)
    paged = [each for start in range(0, 6, 2) for each in messages(request, start, 2)]
    assert paged == listed


def test_the_items_of_codex_are_messages_of_the_request(session: Session) -> None:
    items = [
        {"type": "message", "role": "user", "content": "short"},
        {"type": "compaction", "encrypted_content": "x"},
    ]
    log = draft(DebugLog(category="compaction", message="replaced"), replacement_history=items)
    record(session, ask("go"), *steps(None), log, step(2))
    request = seen(session, 2)
    assert [each.content for each in messages(request, 0, 9)] == items
    assert request.tokens.parts == {"summary": 1}


def test_a_long_session_takes_no_more_queries_and_rows_than_its_window(session: Session) -> None:
    record(session, ask("go"), *steps(*[None] * 300), *summary(), *steps(None, None, None))
    with CaptureQueriesContext(connection) as queries:
        request = seen(session, 303)
        request_changes(request)
        messages(request, 0, 50)
    assert len(request.window.rows) == 5
    assert len(queries) <= 12
