"""The next step of a kind: which steps count, in both directions, as of a position, and the cost."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.entries import DebugLog, EntryDraft, ModelInput, ModelOutput, ToolCall
from historyapp.models import Project, Session, landmarks
from historyapp.models.history import History
from historyapp.models.landmarks import Landmark
from historyapp.services.append import append
from historyapp.services.figures.run_figures import count_run
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.models.test_long_histories import rewound
from tests.plans import statements
from tests.services.drafts import act, ask, draft, failed, ok


def edit(path: str) -> Any:
    return act("Edit", file_path=path, old_string="a", new_string="b")


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="p")


@pytest.fixture
def session(project: Project) -> Session:
    """Eight steps: inputs before 1, 4 and 7, edits of a.py in 2, 5 and 8, failures in 3 and 6, and the agent
    compacted before 5."""
    session = create_session(project)
    drafts = [ask("go"), act("ls"), ok(), edit("a.py"), ok(), act("make"), failed()]
    drafts += [ask("again"), edit("b.py"), ok(), draft(DebugLog(category="compaction", message="full"))]
    drafts += [draft(ModelInput(channel="compaction", content="what was")), edit("a.py"), ok()]
    drafts += [draft(ModelInput(channel="reminder", content="be quick")), act("make"), failed()]
    drafts += [ask("more"), act("ls"), ok(), edit("a.py"), ok()]
    append(project, session.pk, drafts)
    session.refresh_from_db()
    return session


def forwards(search: Any, history: History) -> list[int | None]:
    return [search(history, step, True).step for step in range(1, history.steps + 1)]


def backwards(search: Any, history: History) -> list[int | None]:
    return [search(history, step, False).step for step in range(1, history.steps + 1)]


def test_a_turn_is_a_step_after_an_input_of_a_person(session: Session) -> None:
    history = History(session)
    assert forwards(landmarks.turn, history) == [4, 4, 4, 7, 7, 7, None, None]
    assert backwards(landmarks.turn, history) == [None, 1, 1, 1, 4, 4, 4, 7]


def test_an_error_is_found_in_both_directions(session: Session) -> None:
    history = History(session)
    assert forwards(landmarks.failure, history) == [3, 3, 6, 6, 6, None, None, None]
    assert backwards(landmarks.failure, history) == [None, None, None, 3, 3, 3, 6, 6]


def test_failures_include_likely_ones_and_errors_are_reported_ones(project: Project) -> None:
    session = create_session(project)
    likely = [act("bash", command="make"), ok(outputs="make: *** [all] Error 2")]
    append(project, session.pk, [act(), ok(), *likely, act(), failed(), *likely, act(), ok()])
    session.refresh_from_db()
    history = History(session)
    assert forwards(landmarks.failure, history) == [2, 3, 4, None, None]
    assert backwards(landmarks.failure, history) == [None, None, 2, 3, 4]
    assert forwards(landmarks.error, history) == [3, 3, None, None, None]
    later = [landmarks.has_later_failure(history, step) for step in range(6)]
    assert later == [True, True, True, True, False, False]
    then = History(session, 6)
    assert [landmarks.failure(then, 3, True).step, landmarks.has_later_failure(then, 3)] == [None, False]


def test_the_next_edit_is_of_the_same_file(session: Session) -> None:
    history = History(session)
    assert forwards(landmarks.edit, history) == [None, 5, None, None, 8, None, None, None]
    assert backwards(landmarks.edit, history) == [None, None, None, None, 2, None, None, 5]
    assert [landmarks.edited_file(history, step) for step in (1, 2, 4)] == ["", "a.py", "b.py"]


def shell(*lines: str) -> EntryDraft:
    """A step with a command for each line."""
    calls = [
        ToolCall(id=str(number), name="bash", arguments={"command": line})
        for number, line in enumerate(lines)
    ]
    return draft(ModelOutput(tool_calls=tuple(calls)))


def next_writes(project: Project, *steps: EntryDraft) -> list[int | None]:
    session = create_session(project)
    append(project, session.pk, steps)
    session.refresh_from_db()
    return forwards(landmarks.edit, History(session))


def test_the_next_write_of_a_command_is_found_by_each_name_of_the_file(project: Project) -> None:
    steps = [shell("echo 1 > out.txt"), shell("echo > about.txt"), shell("echo 2 > /w/out.txt")]
    assert next_writes(project, *steps, shell("echo 3 > ./out.txt")) == [3, None, 4, None]


def test_the_next_write_may_be_any_command_of_a_step(project: Project) -> None:
    assert next_writes(project, shell("echo 1 > out.txt"), shell("ls", "echo 3 > out.txt")) == [2, None]


def test_the_next_write_is_found_behind_many_reads(project: Project) -> None:
    reads = [shell("cat out.txt") for _ in range(50)]
    assert next_writes(project, shell("echo 1 > out.txt"), *reads, shell("echo 2 > out.txt"))[0] == 52


def test_a_jump_to_the_next_write_stops_after_it_has_parsed_many_command_lines(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = [shell("cat out.txt; ls > b.txt") for _ in range(50)]
    session = create_session(project)
    append(project, session.pk, [shell("echo 1 > out.txt"), *reads, shell("echo 2 > out.txt")])
    session.refresh_from_db()
    monkeypatch.setattr(landmarks, "MAX_PARSED", 500)
    found, jumps = landmarks.edit(History(session), 1, True), 1
    assert found.step is None
    while found.step is None and found.searched_to is not None:
        found, jumps = landmarks._next_write(History(session), "out.txt", found.searched_to, True), jumps + 1
    assert (found.step, jumps < 5) == (52, True)


def test_a_compaction_by_the_agent_is_found(session: Session) -> None:
    history = History(session)
    assert forwards(landmarks.compaction, history) == [5, 5, 5, 5, None, None, None, None]
    assert backwards(landmarks.compaction, history) == [None] * 5 + [5, 5, 5]


@pytest.mark.parametrize("category", ["Condensation", "condensation", "compaction"])
def test_the_compactions_of_every_agent_are_found(project: Project, category: str) -> None:
    session = create_session(project)
    note = draft(DebugLog(category=category, message="forgotten: 4"))
    append(project, session.pk, [act("ls"), ok(), note, act("ls"), ok()])
    session.refresh_from_db()
    assert landmarks.compaction(History(session), 1, True).step == 2


def test_an_entry_without_a_later_step_is_not_a_landmark(project: Project, session: Session) -> None:
    append(project, session.pk, [ask("one more"), draft(DebugLog(category="compaction", message="full"))])
    session.refresh_from_db()
    assert landmarks.turn(History(session), 7, True).step is None
    assert landmarks.compaction(History(session), 5, True).step is None


def test_turns_and_compactions_are_those_of_the_overview(session: Session) -> None:
    history = History(session)
    figures = count_run(history).figures
    assert [1, *dict.fromkeys(filter(None, forwards(landmarks.turn, history)))] == figures.turns
    compactions = [one.step for one in figures.sizes.compactions]
    assert list(dict.fromkeys(filter(None, forwards(landmarks.compaction, history)))) == compactions


def test_a_take_is_found_at_the_step_after_which_it_branches_off(project: Project, session: Session) -> None:
    rewind(project, session.pk, Target(to_step=6))
    append(project, session.pk, [act("other"), ok()])
    rewind(project, session.pk, Target(to_step=2))
    append(project, session.pk, [act("another"), ok(), act("last"), ok()])
    session.refresh_from_db()
    history = History(session)
    assert forwards(landmarks.take, history) == [2, None, None, None]
    assert backwards(landmarks.take, history) == [None, None, 2, 2]


def test_landmarks_in_takes_are_found_only_as_of_then(project: Project, session: Session) -> None:
    head = session.head
    rewind(project, session.pk, Target(to_step=4))
    append(project, session.pk, [act("ls"), ok(), act("ls"), ok(), edit("b.py"), ok()])
    session.refresh_from_db()
    now, then = History(session), History(session, head)
    assert [landmarks.turn(one, 4, True).step for one in (now, then)] == [None, 7]
    assert [landmarks.edit(one, 4, True).step for one in (now, then)] == [7, None]
    assert [landmarks.edit(one, 2, True).step for one in (now, then)] == [None, 5]
    assert [landmarks.compaction(one, 1, True).step for one in (now, then)] == [None, 5]
    assert [landmarks.failure(one, 3, True).step for one in (now, then)] == [None, 6]


def test_the_next_command_that_writes_the_same_file_is_found(project: Project) -> None:
    session = create_session(project)
    commands = ["cat > a.py << X\nb\nX", "cat a.py", "sed -i s/a/b/ c.py", "sed -i s/a/b/ a.py"]
    append(
        project, session.pk, [draft for command in commands for draft in (act("bash", command=command), ok())]
    )
    session.refresh_from_db()
    history = History(session)
    assert forwards(landmarks.edit, history) == [4, None, None, None]
    assert backwards(landmarks.edit, history) == [None, None, None, 1]


def test_many_edits_that_were_cut_off_do_not_hide_the_live_one(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landmarks, "_PAGE", 2)
    for _ in range(4):
        rewind(project, session.pk, Target(to_step=2))
        append(project, session.pk, [edit("a.py"), ok()])
    rewind(project, session.pk, Target(to_step=2))
    append(project, session.pk, [act("ls"), ok(), edit("a.py"), ok()])
    session.refresh_from_db()
    assert landmarks.edit(History(session), 2, True) == Landmark(4)
    assert landmarks.edit(History(session), 4, False) == Landmark(2)


def test_a_search_that_stops_early_returns_where_to_continue(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = create_session(project)
    for number in range(40):
        note = draft(DebugLog(category="hook", message=f"note {number}"))
        append(project, session.pk, [note, act("ls"), ok()])
    session.refresh_from_db()
    append(project, session.pk, [ask("at last"), act("ls"), ok()])
    compacted = [draft(DebugLog(category="compaction", message="full")), act("ls"), ok()]
    append(project, session.pk, compacted)
    session.refresh_from_db()
    history = History(session)
    monkeypatch.setattr(landmarks, "MAX_ROWS", 16)
    step, parts = 1, 0
    while (result := landmarks.compaction(history, step, True)).step is None:
        assert result.searched_to is not None
        assert result.searched_to > step
        step, parts = result.searched_to, parts + 1
    assert result.step == 42
    assert parts == 2
    assert landmarks.turn(history, 1, True).step == 41


def test_the_index_of_edits_is_used(session: Session) -> None:
    history = History(session)
    with statements() as issued:
        landmarks.edit(history, 2, True)
    (search,) = [one for one in issued if "target" in one.sql.partition("WHERE")[2]]
    assert all("target" in way.by for way in search.accesses)


def test_the_index_of_a_kind_is_used(session: Session) -> None:
    history = History(session)
    history.row(4)
    with statements() as issued:
        landmarks.compaction(history, 4, True)
        landmarks.turn(history, 4, False)
    indexes = {way.index for one in issued if "kind = '" in one.sql for way in one.accesses}
    assert len(indexes) == 2
    if connection.vendor == "sqlite":
        assert indexes == {"entry_model_input", "entry_debug_log"}
    else:  # an index of a partition has a name of its own; the primary key's ends with pkey
        assert not [name for name in indexes if name.endswith("pkey")]


def test_a_jump_in_a_session_of_many_takes_needs_few_queries(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.core.lineage.BLOCK", 4)
    session = rewound(project, 40)
    session.refresh_from_db()
    for kind in ("turn", "compaction", "failure", "error", "edit", "take"):
        history = History(session)
        assert history.lineage.older
        with CaptureQueriesContext(connection) as queries:
            getattr(landmarks, kind)(history, 20, False)
        assert len(queries) <= 60, kind


def test_the_first_failures_of_rewound_sessions_and_forks_are_found_together(project: Project) -> None:
    sessions = [create_session(project) for _ in range(3)]
    for number, one in enumerate(sessions):
        append(project, one.pk, [draft for _ in range(5) for draft in (act(), failed())])
        rewind(project, one.pk, Target(to_step=number))
        append(project, one.pk, [act(), ok(), act(), failed()])
    sessions.append(fork(project, sessions[0].pk))
    for one in sessions:
        one.refresh_from_db()
    with CaptureQueriesContext(connection) as captured:
        found = landmarks.first_failures(sessions)
    assert len(captured) == 2
    assert found == {
        one.pk: History(one).row(number).finished_at for one, number in zip(sessions, (2, 1, 1), strict=False)
    }
