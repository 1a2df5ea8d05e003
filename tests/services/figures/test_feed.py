"""Figures by day follow the feed of changes, from wherever they stopped."""

from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.db import DataError
from django.utils import timezone

from historyapp.core import usage
from historyapp.models import Change, CountedSession, FiguresProgress, Project, ProjectDay, Session
from historyapp.models.changes import Cursor, changes_since, newest_cursor, next_transaction
from historyapp.services import sessions
from historyapp.services.append import append
from historyapp.services.changes import prune_changes, reset_transaction_ids
from historyapp.services.figures import day_figures, feed
from historyapp.services.figures.counted_entries import CountedPart
from historyapp.services.figures.feed import follow_changes
from historyapp.services.retention import purge
from historyapp.services.sessions import change_session, create_session
from tests.services.drafts import act, ok

pytestmark = pytest.mark.usefixtures("settled")


def steps(project: Project) -> int:
    return sum(ProjectDay.objects.filter(project=project).values_list("steps", flat=True))


def follow() -> None:
    assert follow_changes(lambda: False) is False


def test_existing_sessions_are_counted_first_and_then_changes(project: Project, session: Session) -> None:
    append(project, session.pk, [act(), ok()])
    follow()
    assert steps(project) == 1
    append(project, session.pk, [act(), ok()])
    create_session(project)
    follow()
    assert steps(project) == 2
    assert CountedSession.objects.count() == 2


def test_progress_that_another_worker_stores_at_the_same_time_is_kept(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count_in_another_worker(project_id: UUID) -> Cursor:
        cursor = newest_cursor(project_id)
        FiguresProgress.objects.create(
            project=project, transaction_id=cursor.transaction_id, change_id=cursor.id, is_complete=True
        )
        return cursor

    monkeypatch.setattr(feed, "newest_cursor", count_in_another_worker)
    follow()
    assert not CountedSession.objects.filter(pk=session.pk).exists()  # the other one has counted it


def test_nothing_is_read_of_projects_without_changes(
    project: Project, session: Session, django_assert_num_queries: Any
) -> None:
    follow()
    with django_assert_num_queries(1):
        follow()


def test_counting_continues_where_it_stopped(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(day_figures, "BATCH_SIZE", 2)
    append(project, session.pk, [draft for _ in range(4) for draft in (act(), ok())])
    heads = list[int]()
    for _ in range(8):
        follow_changes(partial(next, iter((False,)), True))
        heads += CountedSession.objects.values_list("head", flat=True)
    assert heads == [2, 4, 6, 8, 8, 8, 8, 8]
    follow()
    assert steps(project) == 4


def test_a_session_that_cannot_be_counted_delays_no_other(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    others = [create_session(project) for _ in range(3)]
    for one in (session, *others):
        append(project, one.pk, [act(), ok()])
    count = CountedPart.entries

    def damaged(part: Any) -> Any:
        if part._session.pk == others[1].pk:
            raise ValueError("damaged")
        return count(part)

    monkeypatch.setattr(CountedPart, "entries", damaged)
    follow()
    assert steps(project) == 3
    assert str(others[1].pk) in caplog.text


def test_a_sum_beyond_64_bits_delays_no_other_session_or_project(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "MICRO", 10**9)  # each entry costs nearly 10**18
    other = create_session(Project.objects.create(name="theirs"))
    sessions = [session, *(create_session(project) for _ in range(2))]
    for one in sessions:
        outputs = [act()._replace(metadata={"cost": 999_999_999}) for _ in range(5)]
        append(project, one.pk, outputs)
    append(other.project, other.pk, [act(), ok()])
    follow()
    assert steps(other.project) == 1
    append(project, create_session(project).pk, [act(), ok()])
    follow()
    assert steps(project) >= 6


def test_a_project_whose_changes_cannot_be_read_delays_no_other(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    follow()
    other = create_session(Project.objects.create(name="theirs"))
    append(other.project, other.pk, [act(), ok()])
    append(project, session.pk, [act(), ok()])
    read = changes_since

    def damaged(of: UUID, cursor: Cursor) -> Any:
        if of == project.pk:
            raise DataError("out of range")
        return read(of, cursor)

    monkeypatch.setattr(feed, "changes_since", damaged)
    follow()
    assert (steps(project), steps(other.project)) == (0, 1)
    assert str(project.pk) in caplog.text


def test_a_project_whose_changes_were_deleted_is_counted_again(project: Project, session: Session) -> None:
    follow()
    append(project, session.pk, [act(), ok()])
    change_session(project, session.pk, {"title": "x"})
    Change.objects.update(at=timezone.now() - timedelta(days=40))
    Session.objects.filter(pk=create_session(project).pk).update(title="late")
    prune_changes(timedelta(days=30))
    gone = create_session(project)
    CountedSession.objects.create(session_id=gone.pk, project=project, version=1)
    Session.objects.filter(pk=gone.pk).delete()
    follow()
    assert steps(project) == 1
    assert not CountedSession.objects.filter(pk=gone.pk).exists()


def test_a_session_with_the_id_of_a_deleted_one_is_counted_from_its_beginning(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "was_deleted", lambda _: False)  # as before migration 0061
    append(project, session.pk, [act("old"), ok()])
    follow()
    change_session(project, session.pk, {"status": "archived"})
    purge(project, [session.pk], timezone.now() + timedelta(days=1))
    create_session(project, id=session.pk)
    append(project, session.pk, [act("new"), ok(), act("new"), ok()])
    follow()
    assert set(ProjectDay.objects.exclude(tool="").values_list("tool", "steps")) == {("new", 2)}


@pytest.mark.skipif("config.getoption('database') == 'sqlite'", reason="SQLite counts no transactions")
def test_counting_continues_after_a_restore_of_the_database(project: Project, session: Session) -> None:
    follow()
    FiguresProgress.objects.update(transaction_id=next_transaction() + 10**9)
    reset_transaction_ids()
    append(project, session.pk, [act(), ok()])
    follow()
    assert steps(project) == 1


def test_each_kind_that_changes_figures_is_followed() -> None:
    assert {"entries", "rewind", "session_created", "session_changed", "session_deleted"} == {
        *feed.COUNTED_KINDS
    }
