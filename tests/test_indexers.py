"""The threads of a worker that build indexes."""

import threading
from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError
from django.utils import timezone

from historyapp import indexers, tasks
from historyapp.indexers import IndexKind, IndexRequest, IndexScheduler
from historyapp.models import NameIndex, Project, SearchStep, Session, TextBlock
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from historyapp.work_threads import WorkThreads
from tests.services.drafts import act, ok

pytestmark = pytest.mark.django_db(transaction=True)

Slice = tuple[IndexKind, UUID]


@pytest.fixture(autouse=True)
def _own_scheduler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(indexers, "SCHEDULER", IndexScheduler())
    monkeypatch.setattr(tasks, "INDEX_SCHEDULER", indexers.SCHEDULER)
    threads = WorkThreads("indexes", indexers.INDEXES_AT_ONCE, lambda: indexers.work_on_indexes())
    monkeypatch.setattr(indexers, "INDEXERS", threads)
    yield
    threads.wait()


@pytest.fixture
def waiting_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests start no threads."""
    monkeypatch.setattr(indexers.INDEXERS, "start", lambda: True)


def _sessions(*projects: str) -> list[Session]:
    by_name = {name: Project.objects.create(name=name) for name in sorted(set(projects))}
    return [create_session(by_name[name]) for name in projects]


def _record_slices(monkeypatch: pytest.MonkeyPatch, unfinished: int = 0) -> list[Slice]:
    """The slices that begin from now on. The first ``unfinished`` end before their index is complete."""
    slices: list[Slice] = []

    def builder(kind: IndexKind) -> Callable[[UUID, Callable[[], bool]], None]:
        def build(id: UUID, should_stop: Callable[[], bool]) -> None:
            slices.append((kind, id))
            if len(slices) <= unfinished:
                assert should_stop()

        return build

    for kind in list(indexers.BUILDERS):
        monkeypatch.setitem(indexers.BUILDERS, kind, builder(kind))
    return slices


def test_messages_complete_each_index() -> None:
    (session,) = _sessions("ours")
    drafts = [draft for number in range(10) for draft in (act(path=f"{number}.py"), ok(outputs="y" * 9000))]
    append(session.project, session.pk, drafts)
    tasks.index_text(str(session.pk))
    tasks.index_names(str(session.pk))
    tasks.index_search(str(session.project_id))
    indexers.INDEXERS.wait()
    indexers.work_on_indexes()
    assert TextBlock.objects.filter(session=session).count() == 1
    assert NameIndex.objects.get(session=session).position == 20
    assert SearchStep.objects.filter(session=session).count() == 10
    assert not tasks.is_busy()


@pytest.mark.usefixtures("waiting_threads")
def test_an_index_that_many_messages_request_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    (session,) = _sessions("ours")
    slices = _record_slices(monkeypatch)
    for _ in range(5):
        tasks.index_text(str(session.pk))
    assert tasks.is_busy()
    indexers.work_on_indexes()
    assert slices == [("text", session.pk)]
    assert not tasks.is_busy()


@pytest.mark.usefixtures("waiting_threads")
def test_projects_and_then_indexes_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, other = _sessions("ours", "ours", "theirs")
    monkeypatch.setattr(indexers, "SLICE_SECONDS", -1)
    slices = _record_slices(monkeypatch, unfinished=3)
    for session in (first, second, other):
        tasks.index_text(str(session.pk))
    indexers.work_on_indexes()
    assert slices == [("text", session.pk) for session in (first, other, second, other, first, second)]


@pytest.mark.usefixtures("waiting_threads")
def test_a_project_has_one_thread() -> None:
    first, second, other = _sessions("ours", "ours", "theirs")
    for session in (first, second, other):
        tasks.index_text(str(session.pk))
    taken = [indexers.SCHEDULER.take() for _ in range(3)]
    expected = [IndexRequest("text", id, id, timezone.now()).key for id in (first.pk, other.pk)]
    assert taken == [*expected, None]
    indexers.SCHEDULER.begin(expected[0])
    indexers.SCHEDULER.end(expected[0], None)
    assert indexers.SCHEDULER.take() == IndexRequest("text", second.pk, second.pk, timezone.now()).key


def test_messages_keep_no_task_thread_and_start_at_most_two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    release, entered = threading.Event(), threading.Semaphore(0)

    def build(id: UUID, should_stop: Callable[[], bool]) -> None:
        entered.release()
        assert release.wait(30)

    monkeypatch.setitem(indexers.BUILDERS, "text", build)
    for session in _sessions(*[f"project {number}" for number in range(6)]):
        tasks.index_text(str(session.pk))
    try:
        for _ in range(indexers.INDEXES_AT_ONCE):
            assert entered.acquire(timeout=30)
        assert not entered.acquire(timeout=0.3)
        assert tasks.is_busy()
    finally:
        release.set()
    indexers.INDEXERS.wait()
    indexers.work_on_indexes()
    assert not tasks.is_busy()


@pytest.mark.usefixtures("waiting_threads")
def test_an_index_that_cannot_be_built_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _sessions("ours", "ours")
    slices = _record_slices(monkeypatch)

    def fail(id: UUID, should_stop: Callable[[], bool]) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setitem(indexers.BUILDERS, "names", fail)
    tasks.index_names(str(first.pk))
    tasks.index_text(str(second.pk))
    with pytest.raises(OperationalError):
        indexers.work_on_indexes()
    indexers.work_on_indexes()
    assert slices == [("text", second.pk)]


@pytest.mark.usefixtures("waiting_threads")
def test_requests_of_a_project_are_limited_and_deleted_sessions_are_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(indexers, "MAX_REQUESTS", 2)
    *ours, other = _sessions("ours", "ours", "ours", "theirs")
    slices = _record_slices(monkeypatch)
    for id in [uuid4(), *[session.pk for session in ours], other.pk]:
        tasks.index_text(str(id))
    indexers.work_on_indexes()
    assert {id for _, id in slices} == {ours[0].pk, ours[1].pk, other.pk}
