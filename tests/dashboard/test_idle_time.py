"""Lists, comparisons and the API count the time of a run as the overview does."""

import json
from datetime import UTC, datetime, timedelta
from io import BytesIO

import pytest
from django.test import Client

from historyapp.api.sessions import session_out
from historyapp.core.entries import DebugLog, Rewind
from historyapp.core.importers.base import Source
from historyapp.core.run_clock import Clock
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.append import append, lock_session
from historyapp.services.imports.files import import_file
from historyapp.services.overview import overview_of
from historyapp.services.projections import rebuild
from historyapp.services.rewinds import Target, fork, rewind, rewind_locked
from historyapp.services.run_comparisons import RunReference, compare_runs
from historyapp.services.sessions import create_session
from historyapp.services.transactions import writing
from tests.core.importers.claude_lines import S, answer, assistant, record, says, tool_call, user
from tests.dashboard.pages import text
from tests.services.drafts import act, draft, ok

BEGIN = datetime(2026, 1, 19, tzinfo=UTC)


def imported(project: Project) -> Session:
    """A run of 90 s. A hook ran 10 minutes before the first prompt, another one an hour after the answer."""
    hook = {"subtype": "hook_result", "content": "formatted"}
    lines = [
        record("system", 1, None, **hook),
        user(2, 1, "Fix it"),
        assistant(3, 2, tool_call("a", file_path="a.py")),
        answer(4, 3, "a"),
        assistant(5, 4, says("Done.")),
        record("system", 6, 5, **hook),
    ]
    for line, seconds in zip(lines, (0, 600, 630, 650, 690, 4_290), strict=True):
        line["timestamp"] = (BEGIN + timedelta(seconds=seconds)).isoformat()
    source = Source(f"{S}.jsonl", BytesIO("\n".join(map(json.dumps, lines)).encode()))
    assert import_file(project, source).total("added") == len(lines)
    return Session.objects.get()


def seconds(session: Session, other: Session) -> set[float]:
    """The time of a run wherever it is counted with the steps that a fork shares."""
    session.refresh_from_db()
    assert rebuild(session, check_only=True).differences == []
    history = History(session)
    active = overview_of(history).active_time
    pair = compare_runs(
        RunReference(session.pk), RunReference(other.pk), lambda id: Session.objects.get(pk=id)
    )
    assert active is not None
    assert pair.a.whole.duration is not None
    return {active.total_seconds(), pair.a.whole.duration.total_seconds(), session_out(history).duration or 0}


def continue_at(project: Project, session: Session, at: float) -> None:
    moment = BEGIN + timedelta(seconds=at)
    later = [(act(), moment), (ok(), moment + timedelta(seconds=7))]
    append(project, session.pk, [draft._replace(created_at=time) for draft, time in later])


def test_an_imported_run_is_as_long_in_lists_comparisons_and_the_api_as_in_its_overview(
    alice: Client, project: Project
) -> None:
    session = imported(project)
    child = fork(project, session.pk, at_step=1)
    assert seconds(session, child) == {90}
    assert session.duration == 90_000
    assert seconds(child, session) == {50}
    assert "1 min 30 s" in text(alice.get("/", {"folded": "0"}))
    assert "1 min 30 s in 1 h 11 min" in text(alice.get(f"/sessions/{session.pk}/overview"))


def test_the_time_until_a_run_is_continued_after_a_rewind_or_a_fork_is_idle(project: Project) -> None:
    session = imported(project)
    child = fork(project, session.pk, at_step=1)
    rewind(project, session.pk, Target(to_step=1))
    assert seconds(session, child) == {50}
    continue_at(project, session, 9_000)
    continue_at(project, child, 7_000)
    assert seconds(session, child) == {57}
    assert seconds(child, session) == {57}
    assert (session.duration, child.duration) == (57_000, 7_000)
    rewind(project, session.pk, Target(to_step=0))
    continue_at(project, session, 10_000)
    assert seconds(session, child) == {7}
    assert session.duration == 7_000


def test_the_time_until_a_fork_is_continued_after_a_rewind_into_its_shared_part_is_idle(
    project: Project,
) -> None:
    session = imported(project)
    child = fork(project, session.pk, at_step=1)
    continue_at(project, child, 7_000)
    rewind(project, child.pk, Target(to_step=1))
    continue_at(project, child, 9_000)
    assert seconds(child, session) == {57}
    assert child.duration == 7_000
    continue_at(project, child, 9_010)
    rewind(project, child.pk, Target(to_step=2))
    assert seconds(child, session) == {57}
    assert child.duration == 7_000


def test_a_fork_does_not_count_the_idle_time_before_its_first_entry(project: Project) -> None:
    session = imported(project)
    rewind(project, session.pk, Target(to_step=0))
    continue_at(project, session, 10_000)
    child = fork(project, session.pk, at_step=1)
    continue_at(project, child, 11_000)
    assert seconds(child, session) == {14}
    assert child.duration == 7_000


def test_the_time_after_the_rewind_of_an_empty_session_is_idle(project: Project) -> None:
    other, session = imported(project), create_session(project)
    body = Rewind(to_position=0, spans=())
    with writing():
        rewind_locked(lock_session(project, session.pk), draft(body, BEGIN), "")
    continue_at(project, session, 600)
    assert seconds(session, other) == {7}
    assert session.duration == 7_000


def test_parts_after_the_common_steps_leave_out_idle_time(project: Project) -> None:
    session = imported(project)
    child = fork(project, session.pk, at_step=1)
    continue_at(project, child, 700)
    continue_at(project, child, 720)
    rewind(project, child.pk, Target(to_step=2))
    continue_at(project, child, 90_000)
    pair = compare_runs(
        RunReference(child.pk), RunReference(session.pk), lambda id: Session.objects.get(pk=id)
    )
    assert pair.a.after_common.duration == timedelta(seconds=14)


def test_an_earlier_version_counted_no_idle_time(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entries never change, so lists count the whole length until then, and no idle time after that."""
    session = create_session(project)
    with monkeypatch.context() as then:
        then.setattr(Clock, "after", lambda clock, entry, idle, steps: (Clock(), 0))
        note = draft(DebugLog(category="hook", message="…"), BEGIN)
        append(project, session.pk, [note])
        continue_at(project, session, 600)
    continue_at(project, session, 700)
    append(project, session.pk, [note._replace(created_at=BEGIN + timedelta(seconds=807))])
    session.refresh_from_db()
    assert session.duration == 707_000
    assert overview_of(History(session)).active_time == timedelta(seconds=107)
    assert rebuild(session, check_only=True).differences == []
    rebuild(session)
    continue_at(project, session, 900)
    session.refresh_from_db()
    assert session.duration == 907_000
    assert rebuild(session, check_only=True).differences == []
