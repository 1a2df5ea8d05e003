"""A turn is found in a few queries, in sessions of any length, in forks and after rewinds."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.entries import DebugLog, EntryDraft, ModelInput
from historyapp.core.json_memory import memory_of
from historyapp.models import Episode, Project, Session, long_rows
from historyapp.models.history import History
from historyapp.models.landmarks import turn
from historyapp.models.tails import tail_of
from historyapp.models.turns import first_step, last_step, steps_of_turn
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.dashboard.long_sessions import long_session
from tests.services.drafts import act, ask, ok

pytestmark = pytest.mark.django_db
TYPED = "<command-message>review</command-message>\n<command-name>/review</command-name>"
BY_PROGRAM = EntryDraft(ModelInput(channel="reminder", content="stay on task"))


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="Alice's")


def with_turns(project: Project, *steps: int) -> Session:
    session = create_session(project)
    append(project, session.pk, [act(), ok()])
    for count in steps:
        append(
            project,
            session.pk,
            [ask("go"), BY_PROGRAM, *[one for _ in range(count) for one in (act(), ok())]],
        )
    session.refresh_from_db()
    return session


def turns(session: Session, as_of: int | None = None) -> list[int]:
    history = History(session, as_of)
    return [row.turn for row in history.rows(1, history.steps)]


def test_inputs_of_a_person_begin_turns_and_those_of_programs_do_not(project: Project) -> None:
    session = with_turns(project, 2, 1)
    append(project, session.pk, [BY_PROGRAM, act(), ok(), ask("a"), ask("b"), act()])
    session.refresh_from_db()
    assert turns(session) == [0, 1, 1, 2, 2, 3]
    assert [row.turn_first for row in History(session).rows(1, 6)] == [0, 2, 2, 4, 4, 6]


def test_commands_that_the_model_answers_begin_turns_in_rows_earlier_tails_and_jumps(
    project: Project,
) -> None:
    session = with_turns(project, 2)
    command, output = (
        EntryDraft(ModelInput(channel="command", content=text))
        for text in (TYPED, "<bash-stdout>a</bash-stdout>")
    )
    append(project, session.pk, [command, output, BY_PROGRAM])
    append(project, session.pk, [act(), ok(), output, act(), ok()])
    session.refresh_from_db()
    assert turns(session) == [0, 1, 1, 2, 2]
    tail = tail_of(session.lineage(session.head - 5))
    assert (tail.begins_turn, tail.input_preview) == (True, "/review")
    assert History(session).row(4).input_preview == "/review"
    assert not tail_of(session.lineage(session.head - 2)).begins_turn
    assert turn(History(session), 2, True).step == 4
    assert turn(History(session), 4, True).step is None


def test_the_numbers_of_turns_continue_after_a_rewind_and_in_a_fork(project: Project) -> None:
    session = with_turns(project, 2, 2)
    head = session.head
    rewind(project, session.pk, Target(to_position=9))  # after the input of the second turn
    append(project, session.pk, [act(), ok(), ask("again"), act()])
    child = fork(project, session.pk, at_position=6)  # after the first result of the first turn
    append(project, child.pk, [act(), ok(), ask("other"), act()])
    for one in (session, child):
        one.refresh_from_db()
    assert turns(session) == [0, 1, 1, 2, 3]
    assert turns(session, head) == [0, 1, 1, 2, 2]
    assert turns(child)[-1] == turns(child)[-2] + 1 == 2


def test_many_notes_after_the_newest_step_do_not_hide_an_input(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = create_session(project)
    note = EntryDraft(DebugLog(category="retry", message="again"))
    append(project, session.pk, [act(), ok(), ask("go on"), *[note] * 150])
    session.refresh_from_db()
    then = session.lineage(session.head - 1)
    tail = tail_of(then)
    assert (tail.begins_turn, tail.input_preview) == (True, "go on")
    monkeypatch.setattr("historyapp.models.tails.MAX_PENDING", 20)
    with CaptureQueriesContext(connection) as queries:
        assert tail_of(then) == tail
    assert all("LIMIT" in query["sql"] for query in queries if "debug_log" in query["sql"])


def test_of_the_inputs_after_the_newest_step_only_the_one_of_the_preview_is_read_whole(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = create_session(project)
    lists = EntryDraft(ModelInput(channel="reminder", content=[[]] * 2_000), metadata={"ids": [[]] * 2_000})
    compacted = EntryDraft(ModelInput(channel="compaction", content=[[]] * 2_000))
    append(project, session.pk, [act(), ok(), ask("go on"), compacted, *[lists] * 6])
    then = Session.objects.get(pk=session.pk)
    memory = memory_of(lists.body.model_dump())
    token = long_rows.bytes_left.set(2 * memory)
    try:
        tail = tail_of(then.lineage())
    finally:
        long_rows.bytes_left.reset(token)
    live = then.live_tail
    after_cut = live.clock._replace(is_waiting=True)  # the time until the run is continued is idle
    assert tail._replace(step=None) == live._replace(step=None, clock=after_cut)
    assert (tail.input_preview, tail.begins_turn, tail.is_compacted) == ("go on", True, True)


def test_the_steps_of_each_turn_are_found(project: Project) -> None:
    history = History(with_turns(project, 3, 1, 4))
    assert [steps_of_turn(history, turn) for turn in range(1, 4)] == [range(2, 5), range(5, 6), range(6, 10)]
    assert not steps_of_turn(history, 4)
    assert first_step(history, 3) == 6
    assert last_step(history, 2) == 5
    assert first_step(History(create_session(project)), 1) is None


def test_a_turn_between_rows_that_were_read_takes_no_query(project: Project) -> None:
    history = History(with_turns(project, 3, 1, 4))
    history.sample(list(range(1, history.steps + 1)))
    with CaptureQueriesContext(connection) as queries:
        assert (first_step(history, 2), last_step(history, 1)) == (5, 4)
    assert not queries.captured_queries


def test_a_turn_of_a_long_session_takes_few_queries(project: Project) -> None:
    session = long_session(project, 20_000)
    Episode.objects.filter(session=session, number__gte=8_001).update(turn=1)
    Episode.objects.filter(session=session, number__gte=19_999).update(turn=2)
    session.tail["step"]["turn"] = 2
    session.save()
    session.refresh_from_db()
    with CaptureQueriesContext(connection) as queries:
        assert steps_of_turn(History(session), 1) == range(8_001, 19_999)
    assert len(queries) <= 8


@pytest.mark.parametrize("takes", [2, 40])
def test_rows_that_are_read_ahead_are_the_live_ones(project: Project, takes: int) -> None:
    session = with_turns(project, 2)
    for number in range(takes):
        append(project, session.pk, [act("read", path=f"{number}"), ok()])
        rewind(project, session.pk, Target(to_step=3))
    append(project, session.pk, [act("read", path="kept"), ok(), act(), ok()])
    session.refresh_from_db()
    history = History(session)
    loaded = history.load([1, 4, 5, 9])
    assert sorted(loaded) == [1, 4, 5]
    assert loaded[4].target == "kept"
    with CaptureQueriesContext(connection) as queries:
        assert history.row(4).anchor == loaded[4].anchor
    assert not queries.captured_queries


def test_the_newest_row_is_the_one_as_of_the_position(project: Project) -> None:
    session = with_turns(project, 1)
    append(project, session.pk, [act()])
    append(project, session.pk, [ok()])
    session.refresh_from_db()
    then = History(session, session.head - 1)
    assert then.load([3])[3].status == "in_flight"
