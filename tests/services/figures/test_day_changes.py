"""A change of many figures takes several short transactions, and may be interrupted after each of them."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from itertools import cycle, product
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django.plugin import DjangoDbBlocker

from historyapp.models import CountedSession, Project, ProjectDay, Session, SessionDay
from historyapp.services import sessions
from historyapp.services.append import append
from historyapp.services.figures import day_changes, day_figures, day_rows
from historyapp.services.figures.day_checks import rebuild_days
from historyapp.services.figures.day_figures import count_part
from historyapp.services.figures.feed import follow_changes
from historyapp.services.retention import purge
from historyapp.services.rewinds import Target, rewind, undo_rewind
from historyapp.services.sessions import change_session, create_session
from tests.examples import thorough
from tests.services.drafts import act, failed, ok
from tests.services.figures.test_day_figures import all_rows, count_all, figures, rows_of

TOOLS = 12
LIMIT = 3


def sizes_of_transactions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows that each transaction changes, filled while the test runs."""
    sizes, add = list[int](), day_rows.add_to_days

    def record(sessions: Any, agents: Any) -> None:
        sizes.append(len(agents) + sum(map(len, sessions.values())))
        add(sessions, agents)

    monkeypatch.setattr(day_figures, "add_to_days", record)
    return sizes


@pytest.fixture(scope="module")
def counted_once(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Session]:
    """Each test undoes its changes."""
    with django_db_blocker.unblock(), transaction.atomic():
        project = Project.objects.create(name="Alice's")
        session = create_session(project, names={"agent": "old", "model": "base"})
        append(project, session.pk, [one for number in range(TOOLS) for one in (act(f"t{number}"), ok())])
        count_all(project)
        yield session
        transaction.set_rollback(True)


@pytest.fixture
def counted(counted_once: Session, db: None, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A counted session with a row for each of many tools."""
    monkeypatch.setattr(day_changes, "ROWS_AT_ONCE", LIMIT)
    monkeypatch.setattr(day_figures, "MOVED_AT_ONCE", LIMIT)
    return Session.objects.get(pk=counted_once.pk)


@pytest.fixture
def project(counted: Session) -> Project:
    return counted.project


def rename(project: Project, session: UUID, agent: str) -> None:
    change_session(project, session, {"agent": agent})


def archive_and_purge(project: Project, session: UUID) -> None:
    change_session(project, session, {"status": "archived"})
    purge(project, [session], timezone.now() + timedelta(days=1))


def cut_off(project: Project, session: UUID) -> None:
    rewind(project, session, Target(to_step=1))


def cut_off_and_restore(project: Project, session: UUID) -> None:
    undo_rewind(project, session, rewind(project, session, Target(to_position=1)).position)


def count_again(project: Project, session: UUID) -> None:
    CountedSession.objects.filter(pk=session).update(version=0)


CHANGES: dict[str, Callable[[Project, UUID], object]] = {
    "rename": partial(rename, agent="new"),
    "purge": archive_and_purge,
    "rewind": cut_off,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_all_rows_takes_transactions_of_limited_size(
    project: Project, counted: Session, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    sizes = sizes_of_transactions(monkeypatch)
    CHANGES[name](project, counted.pk)
    count_all(project, [counted.pk])
    assert max(sizes) <= 4 * LIMIT
    assert len(sizes) > TOOLS / LIMIT


def test_many_sessions_that_are_renamed_share_no_large_transaction(
    project: Project, counted: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(day_figures, "MAX_ROWS", 2 * LIMIT)
    others = [create_session(project) for _ in range(5)]
    for other in others:
        append(project, other.pk, [act("a"), ok(), act("b"), ok()])
    count_all(project)
    sizes = sizes_of_transactions(monkeypatch)
    for other in others:
        rename(project, other.pk, "other")
    count_all(project)
    assert max(sizes) <= 4 * LIMIT
    assert figures(project, agent="other").sessions == 5


FIRST = ("rename", "rewind", "removal")
SECOND = ("rename", "rewind", "undone rewind", "removal", "deletion", "entries")


@pytest.mark.parametrize(
    ("second", "first", "parts"),
    [
        *zip(SECOND, cycle(FIRST), (1, 1, 3, 3, 1, 3)),
        *(thorough(*each) for each in product(SECOND, FIRST, (1, 3))),
    ],
)
def test_a_change_during_another_one_loses_no_figures(
    project: Project, counted: Session, first: str, second: str, parts: int
) -> None:
    begin: dict[str, Callable[[Project, UUID], object]] = {
        "rename": partial(rename, agent="new"),
        "rewind": cut_off,
        "removal": count_again,
    }
    follow: dict[str, Callable[[Project, UUID], object]] = {
        "rename": partial(rename, agent="newer"),
        "rewind": lambda project, id: rewind(project, id, Target(to_position=1)),
        "undone rewind": cut_off_and_restore,
        "removal": count_again,
        "deletion": archive_and_purge,
        "entries": lambda project, id: append(project, id, [act("late"), failed()]),
    }
    begin[first](project, counted.pk)
    for _ in range(parts):
        assert count_part(project.pk, [counted.pk]) == [counted.pk]
    follow[second](project, counted.pk)
    count_all(project, [counted.pk])
    in_parts = all_rows()
    SessionDay.objects.all().delete()
    ProjectDay.objects.all().delete()
    CountedSession.objects.all().delete()
    count_all(project, [counted.pk])
    assert in_parts == all_rows()
    assert bool(in_parts[0]) == (second != "deletion")


def test_figures_that_are_being_renamed_add_up_at_each_moment(project: Project, counted: Session) -> None:
    rename(project, counted.pk, "new")
    left, seen = [counted.pk], set[int]()
    while left:
        left = count_part(project.pk, left)
        seen.add(figures(project, agent="new").steps)
        assert figures(project).steps == TOOLS
    assert len(seen) > TOOLS / LIMIT
    assert figures(project, agent="new").steps == TOOLS


def test_two_processes_that_rename_at_the_same_time_rename_each_row_once(
    project: Project, counted: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, raced = day_figures._store, list[int]()

    def store_late(changes: Any) -> None:
        if len(raced) < 3:
            raced.append(1)
            count_part(project.pk, [counted.pk])
        store(changes)

    monkeypatch.setattr(day_figures, "_store", store_late)
    rename(project, counted.pk, "new")
    count_all(project)
    assert figures(project).steps == figures(project, agent="new").steps == TOOLS


def test_a_rebuild_finishes_a_rename_first(project: Project, counted: Session) -> None:
    rename(project, counted.pk, "new")
    count_part(project.pk, [counted.pk])
    assert CountedSession.objects.get().moving is not None
    assert rebuild_days(project) == 0
    assert figures(project, agent="new").steps == TOOLS


@pytest.mark.usefixtures("settled")
def test_counting_stops_in_the_middle_of_a_deletion(project: Project, counted: Session) -> None:
    follow_changes(lambda: False)
    rows, stops = SessionDay.objects.count(), 0
    archive_and_purge(project, counted.pk)
    while SessionDay.objects.count() == rows and stops < 100:  # the project of purged sessions may come first
        stops += follow_changes(stop_after(2))
    assert 0 < SessionDay.objects.count() <= rows - LIMIT
    follow_changes(lambda: False)
    assert [*all_rows(), rows_of(CountedSession)] == [set(), set(), set()]


@pytest.mark.usefixtures("settled")
def test_a_session_with_the_id_of_a_deleted_one_restarts_once(
    project: Project, counted: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "was_deleted", lambda _: False)  # as before migration 0061
    follow_changes(lambda: False)
    monkeypatch.setattr(day_figures, "BATCH_SIZE", 2)
    archive_and_purge(project, counted.pk)
    create_session(project, id=counted.pk)
    append(project, counted.pk, [one for number in range(TOOLS) for one in (act(f"n{number}"), ok())])
    for _ in range(4 * TOOLS):
        if not follow_changes(stop_after(1)):
            break
    assert set(ProjectDay.objects.exclude(tool="").values_list("tool", "steps")) == {
        (f"n{number}", 1) for number in range(TOOLS)
    }


@pytest.mark.usefixtures("settled")
def test_a_project_that_is_always_behind_does_not_stop_the_others(project: Project, counted: Session) -> None:
    other = Project.objects.create(name="other")
    append(other, create_session(other).pk, [act(), ok()])
    follow_changes(lambda: False)
    append(other, Session.objects.get(project=other).pk, [act(), ok()])
    for number in range(100):
        rename(project, counted.pk, f"a{number}")
        follow_changes(stop_after(1))
        if figures(other).steps == 2:
            break
    assert figures(other).steps == 2


def stop_after(parts: int) -> Callable[[], bool]:
    answers = iter([False] * parts)
    return lambda: next(answers, True)
