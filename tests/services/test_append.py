"""Appends are all or nothing, one after another, and only up to the limits."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from historyapp.core.entries import (
    EntryDraft,
    ModelOutput,
    Rewind,
    SystemInstruction,
    ToolCall,
    ToolResult,
    ToolResults,
)
from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.core.json import dump_json
from historyapp.models import ApiKey, Entry, Episode, Project, Session, fields, sql, unpaired
from historyapp.models.history import History
from historyapp.models.unpaired import UnpairedReason
from historyapp.services import statements
from historyapp.services.append import append
from historyapp.services.sessions import change_session, create_session
from tests.services.drafts import act, answer, ask, draft, failed, ok, tool_calls


def test_positions_follow_one_another(project: Project, session: Session) -> None:
    assert append(project, session.pk, [ask("go"), act()]).positions == [1, 2]
    assert append(project, session.pk, [ok(), answer()]).positions == [3, 4]
    assert list(Entry.objects.order_by("position").values_list("position", "kind")) == [
        (1, "model_input"),
        (2, "model_output"),
        (3, "tool_results"),
        (4, "model_output"),
    ]


def test_an_entry_is_returned_unchanged(project: Project, session: Session) -> None:
    odd = "\x00 nul, \ud800 half a pair, 日本, 🚀, \u2028"
    when = datetime(2024, 5, 1, 12, 30, tzinfo=UTC)
    append(project, session.pk, [draft(SystemInstruction(text=odd), when, usage={"z": 1, "a": odd})])
    entry = Entry.objects.get().core()
    assert entry.body == SystemInstruction(text=odd)
    assert entry.created_at == when
    assert entry.metadata == {"usage": {"z": 1, "a": odd}}
    assert list(entry.metadata["usage"]) == ["z", "a"]


def test_a_moved_head_is_a_conflict_that_names_it(project: Project, session: Session) -> None:
    append(project, session.pk, [ask("go")])
    with pytest.raises(Conflict, match="head is 1") as caught:
        append(project, session.pk, [act()], expected_position=0)
    assert caught.value.fields == {"head": 1}
    assert append(project, session.pk, [act()], expected_position=1).head == 2


def test_a_batch_is_stored_completely_or_not_at_all(project: Project, session: Session) -> None:
    with pytest.raises(Invalid, match=r"entries\[2\]"):
        append(project, session.pk, [ask("go"), tool_calls("a"), tool_calls("b", "b")])
    assert Entry.objects.count() == 0
    assert Episode.objects.count() == 0
    assert Session.objects.get().head == 0


def test_bodies_of_a_long_batch_are_returned_unchanged(project: Project, session: Session) -> None:
    texts = [f"{number}: {'needle ' * (number % 3) * 40}" for number in range(40)]
    append(project, session.pk, [ask(text) for text in texts])
    bodies = [entry.core().body for entry in Entry.objects.order_by("position")]
    assert bodies == [ask(text).body for text in texts]


@pytest.mark.parametrize("lenient", [False, True])
def test_the_total_length_of_an_outputs_call_ids_is_limited(
    project: Project, session: Session, lenient: bool
) -> None:
    for letters in ("x" * 180, "é" * 32):
        with pytest.raises(Invalid, match="too long"):
            append(
                project, session.pk, [tool_calls(*(f"{n:03}{letters}" for n in range(1000)))], lenient=lenient
            )
        assert Entry.objects.count() == 0
    append(project, session.pk, [tool_calls(*(f"{n:03}{'x' * 177}" for n in range(1000)))], lenient=lenient)
    append(project, session.pk, [tool_calls("a", "x" * 199_000)], lenient=lenient)


def test_the_stored_state_of_a_session_is_small_with_1000_open_calls(
    project: Project, session: Session
) -> None:
    append(project, session.pk, [tool_calls(*(f"{number:04}{'x' * 175}" for number in range(1000)))])
    append(project, session.pk, [ask("go")])
    session.refresh_from_db()
    assert 180_000 < len(dump_json(session.tail)) < 230_000


def test_the_number_of_calls_of_an_output_is_limited(project: Project, session: Session) -> None:
    append(project, session.pk, [tool_calls(*map(str, range(1000)))])
    with pytest.raises(Invalid, match="1,001 tool calls"):
        append(project, session.pk, [tool_calls(*map(str, range(1001)))])


def test_the_number_of_calls_and_results_of_an_append_is_limited(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.services.append.MAX_IN_APPEND", 3)
    two = EntryDraft(ToolResults(results=(ToolResult(status="success"),) * 2))
    append(project, session.pk, [tool_calls("a", "b"), two])
    with pytest.raises(Invalid, match="4 results together"):
        append(project, session.pk, [two, two])
    with pytest.raises(Invalid, match="4 tool calls together"):
        append(project, session.pk, [tool_calls("a", "b"), tool_calls("c", "d")])
    append(project, session.pk, [two, two], lenient=True)


def test_commands_and_values_are_read_before_the_session_is_locked(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append of 23 MB of commands held the lock for 18 s, one of 2 MB of deep lists for 41 s."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("The session is locked.")

    monkeypatch.setattr("historyapp.core.projection.output_facts", refuse)
    monkeypatch.setattr("historyapp.core.result_previews.previewed_text", refuse)
    result = ToolResult(tool_call_id="a", status="success", outputs=[["deep"]])
    append(project, session.pk, [tool_calls("a"), EntryDraft(ToolResults(results=(result,)))])
    step = Episode.objects.get()
    assert (step.tool_names, step.result_preview) == (["read"], '[["deep"]]')


def test_a_stranger_s_session_is_not_found(session: Session) -> None:
    other = Project.objects.create(name="Charlie's")
    with pytest.raises(NotFound):
        append(other, session.pk, [ask("hello")])
    with pytest.raises(NotFound):
        append(other, uuid4(), [ask("hello")])


def test_a_repeated_call_id_is_refused(project: Project, session: Session) -> None:
    with pytest.raises(Invalid, match="two tool calls with the id 'a'"):
        append(project, session.pk, [tool_calls("a", "b", "a")])


def test_a_result_before_any_action_is_refused(project: Project, session: Session) -> None:
    with pytest.raises(Conflict, match="Cannot register result for cycle without action"):
        append(project, session.pk, [ok()])


def test_a_result_that_answers_no_open_call_is_recorded_and_reported(
    project: Project, session: Session
) -> None:
    drafts = [act(), ok(), ok(), tool_calls("a", "b"), ok("a"), ok("z")]
    assert append(project, session.pk, drafts).unpaired == [
        UnpairedReason(3, 0, None, "no_open_call", None),
        UnpairedReason(6, 0, "z", "unknown", None),
    ]
    assert append(project, session.pk, [ok("a"), ok("b")]).unpaired == [
        UnpairedReason(7, 0, "a", "answered", 2)
    ]
    again = History(session_again(session))
    assert [(row.status, row.unpaired) for row in again.rows(1, 2)] == [("success", 1), ("success", 2)]


def test_the_reason_of_an_unpaired_result_is_found_among_the_newest_steps(
    project: Project, session: Session, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    append(project, session.pk, [tool_calls("old"), *[tool_calls(str(number)) for number in range(2000)]])
    with django_assert_max_num_queries(4 + 2 + 4):
        reported = append(project, session.pk, [ok("1995"), ok("old")]).unpaired
    assert [(one.reason, one.step) for one in reported] == [("abandoned", 1997), ("unknown", None)]


def test_long_outputs_are_not_read_for_an_unpaired_result(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read while others wait. A provider's own message has no tokens, so tokens are no limit."""
    read = list[int]()

    def unpack(stored: str | bytes) -> str:
        text = fields.unpack(stored)
        read.append(len(text))
        return text

    monkeypatch.setattr(unpaired, "unpack", unpack)
    message = {"role": "assistant", "content": "\U0001f600" * 100_000}
    long = EntryDraft(ModelOutput(tool_calls=(ToolCall(id="b", name="ls"),), raw_message=message))
    append(project, session.pk, [tool_calls("a"), long, tool_calls("c"), tool_calls("d")])
    reported = append(project, session.pk, [ok("a"), ok("b"), ok("c")]).unpaired
    assert [(one.reason, one.step) for one in reported] == [
        ("abandoned", 1),
        ("unknown", None),
        ("abandoned", 3),
    ]
    assert (len(read), sum(read) < unpaired.MAX_BYTES) == (3, True)


def test_a_transcript_can_have_results_of_unknown_calls(project: Project, session: Session) -> None:
    append(project, session.pk, [ok("lost"), tool_calls("a"), ok("zzz"), ok("a")], lenient=True)
    row = History(session_again(session)).row(1)
    assert (row.status, row.unpaired) == ("success", 1)


def test_a_rewind_cannot_be_appended_by_hand(project: Project, session: Session) -> None:
    with pytest.raises(Invalid, match=r"POST …/rewinds"):
        append(project, session.pk, [draft(Rewind(to_position=0, spans=()))])


def test_an_archived_session_refuses_appends(project: Project, session: Session) -> None:
    change_session(project, session.pk, {"status": "archived"})
    with pytest.raises(Conflict, match="archived"):
        append(project, session.pk, [ask("hello?")])


def test_a_finished_session_is_live_again_after_an_append(project: Project, session: Session) -> None:
    change_session(project, session.pk, {"status": "finished"})
    append(project, session.pk, [ask("one more thing")])
    assert session_again(session).status == "live"


@pytest.mark.parametrize(
    ("drafts", "status"),
    [
        ([act()], "in_flight"),
        ([answer()], "answered"),
        ([act(), ok()], "success"),
        ([act(), failed()], "error"),
        ([tool_calls("a", "b"), ok("b")], "in_flight"),
        ([tool_calls("a", "b"), failed("b"), ok("a")], "error"),
        ([tool_calls("a", "b"), ok()], "success"),
        ([act(), answer()], "abandoned"),
    ],
)
def test_a_step_has_the_status_that_its_results_give_it(
    project: Project, session: Session, drafts: list[object], status: str
) -> None:
    append(project, session.pk, drafts)  # type: ignore[arg-type]
    assert History(session_again(session)).row(1).status == status


def test_counters_count_the_live_history(project: Project, session: Session) -> None:
    append(project, session.pk, [ask("go"), act(), failed(), act(), ok()])
    again = session_again(session)
    assert (again.steps, again.errors) == (2, 1)
    assert again.tokens == sum(Entry.objects.values_list("tokens", flat=True)) > 0


def test_usage_and_cost_add_up_in_every_convention(project: Project, session: Session) -> None:
    openai = draft(answer().body, usage={"prompt_tokens": 100, "completion_tokens": 5}, cost=0.01)
    anthropic = draft(
        answer().body,
        usage={"input_tokens": 10, "cache_read_input_tokens": 60, "output_tokens": 7},
        usage_convention="anthropic",
    )
    nonsense = draft(answer().body, usage={"input_tokens": "many"}, cost="free")
    append(project, session.pk, [openai, anthropic, nonsense])
    totals = session_again(session).live_tail.totals
    assert (totals.input_tokens, totals.output_tokens, totals.cost) == (170, 12, 10_000)


def test_appending_takes_the_same_number_of_queries_at_any_length(
    project: Project, session: Session, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    append(project, session.pk, [act(), ok()])
    # The session's row, the entry, the step, the session's row, a change; and a savepoint of the test.
    with django_assert_num_queries(5 + 2) as short:
        append(project, session.pk, [act()])
    append(project, session.pk, [ok(), *[one for _ in range(500) for one in (act(), ok())]])
    with django_assert_num_queries(len(short)):
        append(project, session.pk, [act()])


def test_an_unchanged_counter_is_not_written_again(project: Project, session: Session) -> None:
    append(project, session.pk, [act(), failed()])
    with CaptureQueriesContext(connection) as queries:
        append(project, session.pk, [act(), ok()])
    (written,) = [query["sql"] for query in queries if query["sql"].startswith("UPDATE historyapp_session")]
    assert "steps = 2" in written
    assert " errors = " not in written
    again = session_again(session)
    assert (again.steps, again.errors, again.shown_tokens) == (2, 1, again.live_tail.totals.tokens)


def test_the_columns_in_the_statement_are_those_of_the_model() -> None:
    def columns(model: type[Entry] | type[Episode]) -> tuple[str, ...]:
        return tuple(str(field.column) for field in model._meta.local_concrete_fields)

    assert columns(Entry) == statements.ENTRY_COLUMNS
    assert columns(Episode) == (*statements.EPISODE_COLUMNS, "excerpt")
    assert set(sql.KEY_COLUMNS) <= {field.column for field in ApiKey._meta.local_concrete_fields}
    assert {*statements.LOCKED_COLUMNS, *statements.TAIL_COLUMNS} <= {
        field.column for field in Session._meta.local_concrete_fields
    }


@pytest.mark.django_db(transaction=True)
def test_fifty_concurrent_writers_leave_no_gap() -> None:
    project = Project.objects.create(name="crowd")
    session = create_session(project)

    def write(number: int) -> list[int]:
        try:
            return append(project, session.pk, [ask(f"{number}.{i}") for i in range(4)]).positions
        finally:
            connection.close()

    with ThreadPoolExecutor(50) as pool:
        given = list(pool.map(write, range(50)))
    positions = sorted(position for batch in given for position in batch)
    assert positions == list(range(1, 201))
    assert all(batch == list(range(batch[0], batch[0] + 4)) for batch in given)
    texts = {entry.body["content"] for entry in Entry.objects.filter(session=session)}
    assert texts == {f"{number}.{i}" for number in range(50) for i in range(4)}


def test_results_of_one_entry_are_checked_one_after_another(project: Project, session: Session) -> None:
    twice = ToolResults(results=(ToolResult(tool_call_id="a", status="success"),) * 2)
    reported = append(project, session.pk, [tool_calls("a", "b"), draft(twice)]).unpaired
    assert reported == [UnpairedReason(2, 1, "a", "answered", 1)]


def session_again(session: Session) -> Session:
    return Session.objects.get(pk=session.pk)
