"""Reading steps of a session does not read the rows of its other takes, and not while it is locked."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoDbBlocker

from historyapp.core.entries import ModelOutput
from historyapp.core.strips import StripMark, load_strip
from historyapp.models import Episode, Project, Session, episodes, step_filters
from historyapp.models.history import History
from historyapp.models.step_filters import StepFilter, StepSearch
from historyapp.models.strips import read_strip
from historyapp.services import rewinds
from historyapp.services.append import append, lock_session
from historyapp.services.rewinds import Target, fork, rewind, undo_rewind
from historyapp.services.sessions import create_session
from tests.services.drafts import act, draft, failed, ok

TAKES, STEPS = 50, 5


@pytest.fixture(scope="module")
def recorded(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[UUID]:
    """A session whose five steps are tried 50 times, each time from the beginning.

    Recorded once: it takes longer than a test. Each test undoes its changes.
    """
    with django_db_blocker.unblock(), transaction.atomic():
        project = Project.objects.create(name="p")
        session = create_session(project)
        for take in range(TAKES):
            append(project, session.pk, [draft(ModelOutput(text=f"step {take} " * 3)) for _ in range(STEPS)])
            rewind(project, session.pk, Target(to_position=0))
        yield session.pk
        transaction.set_rollback(True)


@pytest.fixture
def retried(recorded: UUID, db: None) -> Session:
    return Session.objects.get(pk=recorded)


@pytest.fixture
def project(retried: Session) -> Project:
    return retried.project


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets the number of whole rows and places of each read of steps."""
    counts: list[int] = []
    from_db, row_places = Episode.from_db.__func__, episodes.row_places  # type: ignore[attr-defined]

    def count_row(cls: type, *arguments: Any) -> Any:
        counts.append(1)
        return from_db(cls, *arguments)

    def count_places(*arguments: Any) -> Any:
        places = row_places(*arguments)
        counts.append(len(places))
        return places

    monkeypatch.setattr(Episode, "from_db", classmethod(count_row))
    monkeypatch.setattr(episodes, "row_places", count_places)
    return counts


def end_of(take: int) -> int:
    """The position of the last entry of a take, from 0. A rewind follows each."""
    return take * (STEPS + 1) + STEPS


def one_by_one(past: History) -> list[StripMark]:
    """The strip of a take, from single rows."""
    rows = [past.row(number) for number in range(1, STEPS)]
    return [StripMark(row.total_errors, row.total_likely_failures, row.total_tokens) for row in rows]


def test_the_strip_of_a_take_is_read_without_the_rows_of_all_takes(retried: Session, read: list[int]) -> None:
    for take in (0, 17, TAKES - 1):
        past = History(retried, end_of(take))
        expected = one_by_one(past)
        read.clear()
        assert load_strip(read_strip(past.lineage, STEPS)) == expected
        # Up to 28 whole rows, then up to 128 places, and the four rows; all takes have 200 of these numbers.
        assert sum(read) <= 29 + 129 + 4


def test_steps_with_chosen_numbers_of_a_part_of_many_takes_are_the_live_ones(
    project: Project, retried: Session, read: list[int]
) -> None:
    rewind(project, retried.pk, Target(to_position=end_of(20) - 2))  # within a take
    append(project, retried.pk, [draft(ModelOutput(text="another end")) for _ in range(4)])
    child = fork(project, retried.pk, at_step=6)
    append(project, child.pk, [draft(ModelOutput(text="of the fork"))])
    for session in (retried, child):
        past = History(Session.objects.get(pk=session.pk))
        alone = {number: past.row(number) for number in range(1, past.steps)}
        for numbers in ([1, 2, 3, 4, 5, 6], [6, 3, 1]):
            read.clear()
            rows = Episode.objects.with_numbers(past.lineage, numbers)
            assert [row.number for row in rows] == sorted(numbers)
            assert rows == [alone[row.number] for row in rows]
            assert sum(read) <= 16 * len(numbers) + 64 + 1 + len(numbers)


@pytest.mark.parametrize("change", ["rewind", "undo", "fork"])
def test_the_strip_is_read_before_the_session_is_locked(
    project: Project, retried: Session, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    changes: dict[str, Callable[[], object]] = {
        "rewind": lambda: rewind(project, retried.pk, Target(to_position=end_of(9))),
        "undo": lambda: undo_rewind(project, retried.pk, end_of(9) + 1),
        "fork": lambda: fork(project, retried.pk, at_position=end_of(9)),
    }
    locked_at = list[int]()
    with CaptureQueriesContext(connection) as captured:

        def lock(*arguments: Any) -> Session:
            locked_at.append(len(captured))
            return lock_session(*arguments)

        monkeypatch.setattr(rewinds, "lock_session", lock)
        changes[change]()
    sql = [query["sql"].replace('"', "") for query in captured]
    reads = [number for number, text in enumerate(sql) if "number IN" in text]
    assert reads
    assert max(reads) < locked_at[0]
    changed = Session.objects.get(forked_from=retried) if change == "fork" else retried
    changed.refresh_from_db()
    assert load_strip(changed.strip) == one_by_one(History(changed)) != []


def test_a_search_for_failed_steps_skips_the_failed_takes_of_a_step(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_filters, "_PAGES", (8, 16))
    counts = []
    for takes in (2, 12):
        session = create_session(project)
        append(project, session.pk, [act(), ok()])
        for _ in range(takes):
            append(project, session.pk, [act(), failed()])
            rewind(project, session.pk, Target(to_step=1))
        append(project, session.pk, [act(), failed(), act(), ok()] * 5)
        history = History(Session.objects.get(pk=session.pk))
        with CaptureQueriesContext(connection) as captured:
            search = StepSearch(history, StepFilter(status="error"), range(1, 12))
            assert [row.number for row in search.find(10).rows] == [2, 4, 6, 8, 10]
        counts.append(len(captured))
    assert counts == [4, 4], "to choose the index, the candidates, cut steps, and the rows"


def test_fewer_rows_are_counted_if_there_are_many_spans(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []
    monkeypatch.setattr(
        step_filters, "have_few_rows", lambda _, first, last: counted.append(last - first + 1)
    )
    monkeypatch.setattr("historyapp.core.lineage.BLOCK", 2)
    session = create_session(project)
    for _ in range(2):
        for _ in range(2):
            append(project, session.pk, [act(), ok(), act(), failed()])
            rewind(project, session.pk, Target(episodes=1))
        history = History(Session.objects.get(pk=session.pk))
        list(StepSearch(history, StepFilter(status="error"), range(1, 5_001)).find(1).rows)
    assert counted == [2_000, 500]
