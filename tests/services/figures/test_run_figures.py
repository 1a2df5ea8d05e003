"""Figures are computed from checkpoints, and equal those computed without them."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.entries import EntryDraft, ModelOutput, ToolCall
from historyapp.core.overview.figures import VERSION, RunFigures, dump_figures
from historyapp.models import FiguresCheckpoint, ImportSource, Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.figures import run_figures
from historyapp.services.figures.run_figures import count_run
from historyapp.services.overview import overview_of
from historyapp.services.projections import rebuild
from historyapp.services.rewinds import Target, fork, rewind, undo_rewind
from historyapp.services.sessions import create_session
from tests.services.drafts import act, answer, ask, failed, ok

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_figures, "INTERVAL", 5)


def work(project: Project, session: Session, steps: int, name: str = "bash") -> Session:
    """Steps after a person's input; every fourth one fails."""
    drafts = [ask("go on")]
    for number in range(steps):
        drafts += [act(name, command=f"make {number}"), failed() if number % 4 == 3 else ok()]
    append(project, session.pk, drafts)
    return Session.objects.get(pk=session.pk)


def without_checkpoints(session: Session, as_of: int | None = None) -> RunFigures:
    """The figures without any checkpoint."""
    stored = list(FiguresCheckpoint.objects.all())
    FiguresCheckpoint.objects.all().delete()
    figures = count_run(History(session, as_of), None).figures
    FiguresCheckpoint.objects.all().delete()
    run_figures.store_checkpoints(stored)
    return figures


def steps_stored(session: Session) -> list[int]:
    return list(
        FiguresCheckpoint.objects.filter(session=session).order_by("position").values_list("steps", flat=True)
    )


def test_a_checkpoint_is_stored_each_time_enough_steps_were_added(project: Project, session: Session) -> None:
    session = work(project, session, 12)
    assert count_run(History(session)).figures.tools["bash"].calls == 12
    assert steps_stored(session) == [5, 10]
    session = work(project, session, 6)
    counted = count_run(History(session))
    assert counted.is_complete
    assert counted.figures == without_checkpoints(session)
    assert steps_stored(session) == [5, 10, 15]


def test_steps_before_a_checkpoint_are_not_read_again(project: Project, session: Session) -> None:
    session = work(project, session, 200)
    count_run(History(session))

    def read(session: Session) -> int:
        with CaptureQueriesContext(connection) as queries:
            count_run(History(session))
        return sum("body" in query["sql"] for query in queries)

    few = read(session)
    assert few <= 4
    longer = work(project, session, 400)
    count_run(History(longer))
    assert read(longer) <= few + 2


def test_short_spans_are_read_together(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was rewound after each step has a span for each. 250 queries took half of an overview."""
    monkeypatch.setattr(run_figures, "INTERVAL", 250)
    for number in range(80):
        work(project, session, 2)
        rewind(project, session.pk, Target(to_step=number + 1))
    history = History(Session.objects.get(pk=session.pk))
    assert len(history.lineage.spans) == 80
    with CaptureQueriesContext(connection) as queries:
        counted = count_run(history)
    assert counted.figures.tools["bash"].calls == 80
    assert sum("tokens, totals, metadata" in query["sql"] for query in queries) == 2


def test_a_take_has_figures_of_its_own_and_does_not_disturb_the_live_ones(
    project: Project, session: Session
) -> None:
    session = work(project, session, 12)
    count_run(History(session))
    head = session.head
    rewind(project, session.pk, Target(to_step=3))
    session = work(project, Session.objects.get(pk=session.pk), 9, "other")
    live = count_run(History(session))
    assert live.is_complete
    assert (live.figures.tools["bash"].calls, live.figures.tools["other"].calls) == (3, 9)
    assert live.figures == without_checkpoints(session)
    assert count_run(History(session, head)).figures == without_checkpoints(session, head)
    assert "other" not in count_run(History(session, head)).figures.tools


def test_a_restored_take_is_counted_from_its_checkpoints(project: Project, session: Session) -> None:
    session = work(project, session, 12)
    count_run(History(session))
    cut = rewind(project, session.pk, Target(to_step=2))
    undo_rewind(project, session.pk, cut.position)
    session = Session.objects.get(pk=session.pk)
    assert count_run(History(session)).figures.steps == 12
    assert steps_stored(session) == [5, 10]


def test_a_fork_continues_from_its_parents_checkpoints(project: Project, session: Session) -> None:
    session = work(project, session, 12)
    count_run(History(session))
    child = fork(project, session.pk, at_step=11)
    child = work(project, child, 6, "other")
    counted = count_run(History(child))
    assert counted.figures == without_checkpoints(child)
    assert (counted.figures.tools["bash"].calls, counted.figures.tools["other"].calls) == (11, 6)
    assert steps_stored(child) == [15]


@pytest.mark.parametrize("steps", [7, 10])
def test_the_time_before_a_fork_or_after_a_rewind_is_nobodys(
    project: Project, session: Session, steps: int
) -> None:
    def steps_at(day: int, count: int) -> list[EntryDraft]:
        drafts = [draft for _ in range(count) for draft in (act(), ok())]
        began = LONG_AGO + timedelta(days=day)
        return [each._replace(created_at=began + timedelta(seconds=n)) for n, each in enumerate(drafts)]

    append(project, session.pk, steps_at(0, steps))
    child = fork(project, session.pk, at_step=steps)
    append(project, child.pk, steps_at(400, 6))
    rewind(project, session.pk, Target(to_step=steps - 1))
    append(project, session.pk, steps_at(500, 1))
    for one, steps_of_one in ((child, steps + 6), (session, steps)):
        one.refresh_from_db()
        for _ in range(2):  # the second time from checkpoints
            counted = count_run(History(one)).figures
            assert (counted.tool_time, counted.waiting_time) == (1000 * steps_of_one, 0)
            assert counted.model_time == 1000 * (steps_of_one - 2), "one step has no model call before it"
            assert counted == without_checkpoints(one)
    assert overview_of(History(child)).total_time == timedelta(seconds=2 * (steps + 6) - 2)


def test_the_time_of_a_tool_beside_its_output_is_no_wait_for_approval(
    project: Project, session: Session
) -> None:
    """Codex states it there, and the figures read it from the stored metadata."""
    asks = {"cmd": "ls", "sandbox_permissions": "require_escalated"}
    output = ModelOutput(tool_calls=(ToolCall(id="a", name="exec_command", arguments=asks),))
    result = ok("a")._replace(created_at=LONG_AGO + timedelta(seconds=10), metadata={"duration_seconds": 4})
    append(project, session.pk, [EntryDraft(output, LONG_AGO), result])
    session.refresh_from_db()
    counted = count_run(History(session)).figures
    assert (counted.tool_time, counted.waiting_time) == (4000, 6000)


def test_figures_as_of_a_position_exclude_later_entries(project: Project, session: Session) -> None:
    session = work(project, session, 12)
    count_run(History(session))
    for as_of in range(0, session.head + 1, 3):  # calls and results, before and after checkpoints
        counted = count_run(History(session, as_of))
        assert counted.figures == without_checkpoints(session, as_of)
        assert counted.figures.steps == History(session, as_of).steps


def test_a_long_run_is_counted_in_parts(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = work(project, session, 12)
    parts = []
    for _ in range(20):
        counted = count_run(History(session), seconds=0)
        parts.append(counted.figures.steps)
        if counted.is_complete:
            break
    assert parts == sorted(set(parts))
    assert len(parts) > 2
    assert counted.figures == without_checkpoints(session)


def test_a_late_result_of_the_newest_step_is_counted(project: Project, session: Session) -> None:
    append(project, session.pk, [act("bash", command="make")] * 1)
    session.refresh_from_db()
    assert count_run(History(session)).figures.tools["bash"].errors == 0
    append(project, session.pk, [failed()])
    session = Session.objects.get(pk=session.pk)
    assert count_run(History(session)).figures.tools["bash"].errors == 1


def test_rebuilding_gives_equal_checkpoints(project: Project, session: Session) -> None:
    session = work(project, session, 12)
    count_run(History(session))
    rewind(project, session.pk, Target(to_step=3))
    session = work(project, Session.objects.get(pk=session.pk), 9)
    count_run(History(session))
    before = list(FiguresCheckpoint.objects.order_by("position").values())
    assert rebuild(session).differences == []
    assert list(FiguresCheckpoint.objects.order_by("position").values()) == before


def test_a_wrong_checkpoint_is_reported_and_repaired(project: Project, session: Session) -> None:
    session = work(project, session, 7)
    count_run(History(session))
    FiguresCheckpoint.objects.update(state=dump_figures(RunFigures(steps=5)))
    position = FiguresCheckpoint.objects.get().position
    assert rebuild(session).differences == [f"figures before position {position} differed"]
    assert rebuild(session).differences == []
    assert count_run(History(session)).figures == without_checkpoints(session)


def test_checkpoints_of_another_version_are_replaced(project: Project, session: Session) -> None:
    session = work(project, session, 7)
    count_run(History(session))
    FiguresCheckpoint.objects.update(version=0, state="{}")
    assert count_run(History(session)).figures.steps == 7
    assert FiguresCheckpoint.objects.get().version == VERSION


def test_figures_that_cannot_be_stored_are_still_shown(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise DatabaseError("disk full")

    monkeypatch.setattr(run_figures, "store_checkpoints", refuse)
    session = work(project, session, 7)
    assert count_run(History(session)).is_complete


def test_a_worker_gives_up_if_figures_cannot_be_stored(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise DatabaseError("disk full")

    session = work(project, session, 12)
    monkeypatch.setattr(FiguresCheckpoint.objects, "bulk_create", refuse)
    stops = iter([False, True])
    with pytest.raises(DatabaseError):
        run_figures.count_ahead(session.pk, lambda: next(stops))


def test_an_empty_session_has_empty_figures(session: Session) -> None:
    counted = count_run(History(session))
    assert (counted.is_complete, counted.figures.steps) == (True, 0)


def test_an_answer_alone_is_one_step(project: Project, session: Session) -> None:
    append(project, session.pk, [answer()])
    session.refresh_from_db()
    assert count_run(History(session)).figures.last_status == "answered"


def never() -> bool:
    return False


def test_a_session_that_was_imported_or_has_grown_is_counted_ahead(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_figures, "COUNT_AHEAD_FROM", 10)
    work(project, session, 9)
    assert run_figures.sessions_to_count() == []
    session = work(project, session, 3)
    Session.objects.update(last_entry_at=LONG_AGO)
    assert run_figures.sessions_to_count() == [session.pk], "it was imported just now"
    run_figures.count_ahead(session.pk, never)
    assert steps_stored(session) == [5, 10]
    assert run_figures.sessions_to_count() == []
    work(project, session, 10)
    assert run_figures.sessions_to_count() == [session.pk]


def test_an_id_of_a_client_does_not_make_a_session_recent_for_ever(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_figures, "COUNT_AHEAD_FROM", 10)
    chosen = create_session(project, id=UUID("9c5b94b1-35ad-49bb-b118-8e8fc24abf80"))
    work(project, chosen, 12)
    assert run_figures.sessions_to_count() == [chosen.pk], "it has grown just now"
    Session.objects.update(last_entry_at=LONG_AGO)
    assert run_figures.sessions_to_count() == []


def test_an_imported_session_is_counted_ahead_whatever_its_id_and_its_times(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions of Claude Code keep their ids, which are random, and their entries are old."""
    monkeypatch.setattr(run_figures, "COUNT_AHEAD_FROM", 10)
    chosen = create_session(project, id=UUID("9c5b94b1-35ad-49bb-b118-8e8fc24abf80"))
    work(project, chosen, 12)
    Session.objects.update(last_entry_at=LONG_AGO)
    source = ImportSource.objects.create(
        project=project, format="claude_code", source_id=str(chosen.pk), session=chosen
    )
    assert run_figures.sessions_to_count() == [chosen.pk]
    ImportSource.objects.filter(pk=source.pk).update(imported_at=LONG_AGO)
    assert run_figures.sessions_to_count() == []


def test_a_fork_is_counted_from_the_checkpoints_that_it_shares(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_figures, "COUNT_AHEAD_FROM", 10)
    session = work(project, session, 24)
    run_figures.count_ahead(session.pk, never)
    fork(project, session.pk, at_step=23)
    assert run_figures.sessions_to_count() == []


def test_a_search_for_sessions_to_count_stops_after_a_time_and_others_follow_later(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_figures, "COUNT_AHEAD_FROM", 3)
    monkeypatch.setattr(run_figures, "EXAMINE_SECONDS", -1)
    behind = {work(project, create_session(project), 4).pk for _ in range(3)}
    found = [run_figures.sessions_to_count() for _ in range(40)]
    assert {len(sessions) for sessions in found} == {1}
    assert {session for (session,) in found} == behind


def test_a_live_checkpoint_is_found_among_many_of_takes_in_few_queries(
    project: Project, session: Session
) -> None:
    session = work(project, session, 60)
    count_run(History(session))
    state = FiguresCheckpoint.objects.get(steps=5).state
    rewind(project, session.pk, Target(to_step=8))
    FiguresCheckpoint.objects.filter(steps__gt=5).delete()
    cut = [
        FiguresCheckpoint(session=session, position=position, steps=steps, version=VERSION, state=state)
        for steps, position in enumerate(range(22, 112, 2), 9)
    ]
    FiguresCheckpoint.objects.bulk_create(cut)
    history = History(work(project, session, 60))
    with CaptureQueriesContext(connection) as queries:
        newest = FiguresCheckpoint.objects.newest_in(history.lineage, history.steps)
    assert newest is not None
    assert (newest.steps, newest.state) == (5, state)
    assert len(queries) < 8, "not one for each checkpoint"


def test_idle_sessions_are_not_examined(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_figures, "COUNT_AHEAD_FROM", 10)
    monkeypatch.setattr(run_figures, "RECENT", timedelta(0))
    work(project, session, 12)
    assert run_figures.sessions_to_count() == []


def test_a_worker_stops_counting_on_request_and_when_the_session_is_deleted(
    project: Project, session: Session
) -> None:
    session = work(project, session, 12)
    run_figures.count_ahead(session.pk, lambda: True)
    assert steps_stored(session) == []
    run_figures.count_ahead(uuid4(), never)


def test_the_time_of_a_request_is_checked_after_each_step(project: Project, session: Session) -> None:
    """After 16 steps, six steps of 990 long commands took 14 seconds."""
    session = work(project, session, 3)
    assert [count_run(History(session), 0).figures.steps for _ in range(3)] == [1, 2, 3]
