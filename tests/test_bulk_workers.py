"""The threads of a worker that work on bulk actions."""

import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.db import connection, transaction

from historyapp import bulk_workers, enqueue, tasks, worker
from historyapp.models import BulkAction, Episode, Project, Session, StaleOutcomes
from historyapp.services.append import append
from historyapp.services.bulk.scheduler import BulkScheduler
from historyapp.services.bulk.start import BulkRequest, start_bulk_action
from historyapp.services.bulk.work import process_bulk_action
from historyapp.services.sessions import create_session
from historyapp.services.transactions import gives_way
from historyapp.work_threads import WorkThreads
from tests.services.drafts import act, ok
from tests.test_worker import wait_for_chores

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _own_turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(bulk_workers, "SCHEDULER", BulkScheduler())
    monkeypatch.setattr(tasks, "BULK_SCHEDULER", bulk_workers.SCHEDULER)
    threads = WorkThreads(
        "bulk actions", bulk_workers.ACTIONS_AT_ONCE, lambda: bulk_workers.work_on_bulk_actions()
    )
    monkeypatch.setattr(bulk_workers, "BULK_WORKERS", threads)
    yield
    threads.wait()


def _tagging(project: Project, tag: str, sessions: int = 2) -> BulkAction:
    ids = [create_session(project).pk for _ in range(sessions)]
    return start_bulk_action(project, BulkRequest("add_tag", ids, tag=tag))


def _state(action: BulkAction) -> str:
    return BulkAction.objects.get(pk=action.pk).state


def _turns(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """The actions whose time slices begin from now on, in order."""
    begun: list[UUID] = []

    def process(action: UUID, should_stop: Any, wake: Any) -> bool:
        begun.append(action)
        assert tasks.is_busy()
        stops = iter([False, True])
        return process_bulk_action(action, lambda: next(stops), wake)

    monkeypatch.setattr(bulk_workers, "process_bulk_action", process)
    return begun


def test_bulk_actions_of_a_project_take_turns_and_another_project_comes_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = (Project.objects.create(name=name) for name in ("ours", "theirs"))
    first, second, other = _tagging(ours, "a"), _tagging(ours, "b"), _tagging(theirs, "c", 1)
    begun = _turns(monkeypatch)
    tasks.bulk_action(str(second.pk))
    bulk_workers.BULK_WORKERS.wait()
    assert begun[:3] == [first.pk, other.pk, second.pk]
    assert {_state(action) for action in (first, second, other)} == {"finished"}
    assert not tasks.is_busy()


def test_bulk_actions_give_way_to_other_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """7,668 archived sessions delayed appends of another project by up to 4.8 s."""
    seen = list[bool]()

    def process(action: UUID, should_stop: Any, wake: Any) -> bool:
        seen.append(gives_way.get())
        return process_bulk_action(action, should_stop, wake)

    monkeypatch.setattr(bulk_workers, "process_bulk_action", process)
    tasks.bulk_action(str(_tagging(Project.objects.create(name="ours"), "a").pk))
    bulk_workers.BULK_WORKERS.wait()
    assert set(seen) == {True}


def test_bulk_actions_of_a_project_share_one_thread() -> None:
    ours, theirs = (Project.objects.create(name=name) for name in ("ours", "theirs"))
    first, _, other = _tagging(ours, "a"), _tagging(ours, "b"), _tagging(theirs, "c")
    assert bulk_workers.SCHEDULER.take() == first.pk
    assert list(bulk_workers.SCHEDULER.candidates()) == [other.pk]


def _redis_that_refuses_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise ConnectionRefusedError("Redis does not run")

    monkeypatch.setattr(settings, "REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setattr(enqueue, "_send_to_redis", refuse)


def test_bulk_actions_begin_while_redis_refuses_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    _redis_that_refuses_messages(monkeypatch)
    action = _tagging(Project.objects.create(name="ours"), "a")
    enqueue.wake_bulk_action(action.pk)
    worker._look(idle_seconds=None)()
    bulk_workers.BULK_WORKERS.wait()
    assert _state(action) == "finished"
    assert {tuple(session.tags) for session in Session.objects.all()} == {("a",)}


def test_chores_begin_while_redis_refuses_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    _redis_that_refuses_messages(monkeypatch)
    project = Project.objects.create(name="ours")
    session = create_session(project)
    append(project, session.pk, [act("bash", command="ls"), ok()])
    Episode.objects.update(kind="", target="")
    StaleOutcomes.objects.create(session=session)
    tasks.sweep()
    wait_for_chores()
    assert Episode.objects.get().target == "ls"
    assert not StaleOutcomes.objects.exists()


@pytest.mark.skipif("config.getoption('database') != 'postgres'", reason="SQLite locks no rows")
def test_an_action_that_another_worker_changes_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a thread of each worker would wait for the row, with a connection."""
    action = _tagging(Project.objects.create(name="ours"), "a")
    locked, release = threading.Event(), threading.Event()

    def work_elsewhere() -> None:
        with transaction.atomic():
            BulkAction.objects.select_for_update().get(pk=action.pk)
            locked.set()
            assert release.wait(30)
        connection.close()

    elsewhere = threading.Thread(target=work_elsewhere)
    elsewhere.start()
    try:
        assert locked.wait(30)
        bulk_workers.work_on_bulk_actions()
        assert list(bulk_workers.SCHEDULER.candidates()) == [], (
            "it is left to the other worker for five seconds"
        )
        assert _state(action) == "running"
    finally:
        release.set()
        elsewhere.join()
    monkeypatch.setattr(bulk_workers, "SCHEDULER", BulkScheduler())  # five seconds later
    bulk_workers.work_on_bulk_actions()
    assert _state(action) == "finished"
