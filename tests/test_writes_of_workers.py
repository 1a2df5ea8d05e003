"""All writes of a worker's threads give way to those of others, see ``gives_way``."""

import threading
import time
from collections.abc import Callable
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone

from historyapp import bulk_workers, clock, compression_workers, evaluators, indexers, tasks, worker
from historyapp.lag import QUEUE
from historyapp.models import Episode, FiguresProgress, Project, Session, StaleOutcomes, Webhook
from historyapp.services import transactions
from historyapp.services.append import append
from historyapp.services.bulk.start import BulkRequest, start_bulk_action
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import start_run
from historyapp.services.compression.summarise import Summariser
from historyapp.services.deletions import INTERRUPTED_AFTER, hide
from historyapp.services.evaluations.start import EvaluationRequest, start_evaluation
from historyapp.services.figures.feed import follow_changes
from historyapp.services.queue import put, take
from historyapp.services.sessions import create_session
from historyapp.services.transactions import gives_way, giving_way
from historyapp.services.webhooks import delivery
from historyapp.services.webhooks.endpoints import create_webhook
from historyapp.services.webhooks.sending import Attempt
from tests.services.drafts import act, ok
from tests.services.evaluations.lookups import record_lookups
from tests.test_worker import wait_for_chores

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _own_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is set, no chores are done."""
    monkeypatch.setattr(compression_workers.LOCAL_RUNS, "waiting", threading.Event())


@pytest.fixture
def ours() -> Project:
    return Project.objects.create(name="ours")


def _record(project: Project) -> Session:
    session = create_session(project)
    append(project, session.pk, [draft for _ in range(8) for draft in (act("read", path="a.py"), ok())])
    return session


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each write of the work from now on gives way."""
    seen: list[bool] = []
    monkeypatch.setattr(transactions, "refuse_damaged", lambda: seen.append(gives_way.get()))
    return seen


def _compress(project: Project, writes: list[bool]) -> None:
    start_run(project, _record(project).pk, RunRequest("simple_extract"))
    writes.clear()
    compression_workers.find_waiting_runs()
    compression_workers.LOCAL_RUNS.threads.wait()


def _evaluate(project: Project, writes: list[bool]) -> None:
    session = record_lookups(project)
    start_evaluation(project, EvaluationRequest([session.pk], budgets=(2000,), policies=("live",)))
    writes.clear()
    evaluators.find_waiting_evaluations()
    evaluators.EVALUATORS.wait()


def _change_in_bulk(project: Project, writes: list[bool]) -> None:
    start_bulk_action(project, BulkRequest("add_tag", [_record(project).pk], tag="a"))
    writes.clear()
    bulk_workers.find_waiting_bulk_actions()
    bulk_workers.BULK_WORKERS.wait()


def _index(project: Project, writes: list[bool]) -> None:
    session = _record(project)
    drafts = [draft for number in range(10) for draft in (act(path=f"{number}.py"), ok(outputs="y" * 9000))]
    append(project, session.pk, drafts)
    writes.clear()
    indexers.request_index("text", session.pk)
    indexers.request_index("names", session.pk)
    indexers.request_index("search", project.pk)
    while indexers.SCHEDULER.is_busy:
        indexers.find_waiting_indexes()
        indexers.INDEXERS.wait()


def _do_chores(project: Project, writes: list[bool]) -> None:
    session, hidden = _record(project), _record(project)
    Episode.objects.update(kind="")
    StaleOutcomes.objects.create(session=session)
    hide(hidden, "")
    Session.objects.filter(pk=hidden.pk).update(last_entry_at=timezone.now() - 2 * INTERRUPTED_AFTER)
    writes.clear()
    tasks.CHORES["outcomes"].start()
    tasks.CHORES["deletions"].start()
    wait_for_chores()
    assert not StaleOutcomes.objects.exists()
    assert not Session.objects.filter(pk=hidden.pk).exists()


def _send_webhook(project: Project, writes: list[bool]) -> None:
    webhook = create_webhook(project, "https://example.com/hook")
    _record(project)
    writes.clear()
    tasks._send_webhook(webhook.pk, project.pk)
    assert Webhook.objects.get().last_success_at


def _start_automatic_runs(project: Project, writes: list[bool]) -> None:
    session = _record(project)
    Session.objects.filter(pk=session.pk).update(compression_due=True)
    writes.clear()
    tasks.request_due_runs()
    wait_for_chores()
    assert not Session.objects.get(pk=session.pk).compression_due


@pytest.mark.parametrize(
    "work",
    [_compress, _evaluate, _change_in_bulk, _index, _do_chores, _send_webhook, _start_automatic_runs],
)
def test_every_write_of_a_worker_gives_way(
    work: Callable[[Project, list[bool]], None],
    ours: Project,
    writes: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An append waited for many of them, because SQLite lets processes only poll for its lock."""
    monkeypatch.setattr(delivery, "send", lambda *arguments: Attempt(status=200, error="", milliseconds=1))
    work(ours, writes)
    assert writes
    assert all(writes)
    assert not gives_way.get(), "a request in this thread does not"


@pytest.mark.skipif("config.getoption('database') != 'sqlite'", reason="only SQLite has one writer at a time")
@pytest.mark.parametrize("work", [_compress, _send_webhook])
def test_webhooks_and_runs_do_not_wait_while_other_work_pauses(
    work: Callable[[Project, list[bool]], None], ours: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A webhook of another project took 26 s beside bulk actions, evaluations, indexes and automatic runs."""
    monkeypatch.setattr(delivery, "send", lambda *arguments: Attempt(status=200, error="", milliseconds=1))
    pauses, may_continue, done = threading.Event(), threading.Event(), threading.Event()
    sleep = time.sleep

    def write() -> None:
        with giving_way("other", uuid4()), transactions.writing():
            pass
        connection.close()

    def wait_in_pause(seconds: float) -> None:
        if threading.current_thread() is other:
            pauses.set()
            may_continue.wait(60)
        else:
            sleep(seconds)

    def do_work() -> None:
        work(ours, [])
        done.set()
        connection.close()

    monkeypatch.setattr("historyapp.services.transactions.time.sleep", wait_in_pause)
    other, worker_thread = threading.Thread(target=write), threading.Thread(target=do_work)
    other.start()
    try:
        assert pauses.wait(20)
        worker_thread.start()
        assert done.wait(20)
        assert other.is_alive()
    finally:
        may_continue.set()
        other.join()
        worker_thread.join()


def test_the_clock_waits_for_no_pause(ours: Project, writes: list[bool]) -> None:
    """It finds due webhooks and waiting runs, so they would wait too. It counts figures for half a second."""
    _record(ours)
    stopping = threading.Event()

    def count_figures() -> None:
        follow_changes(lambda: False)
        stopping.set()

    writes.clear()
    clock.run_clock(uuid4(), count_figures, stopping)
    assert FiguresProgress.objects.filter(project=ours).exists()
    assert writes
    assert not any(writes)


def test_threads_that_call_a_model_for_a_run_give_way_too(
    ours: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They reserve the money of each call, and settle it."""
    seen: list[bool] = []
    summarise = Summariser.summarise

    def record(self: Summariser, *arguments: object) -> object:
        seen.append(gives_way.get())
        return summarise(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Summariser, "summarise", record)
    _compress(ours, [])
    assert len(seen) > 1
    assert all(seen)


def test_a_worker_gives_way_when_it_takes_messages(
    writes: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Celery's consumer runs in the thread that starts it. Each message is taken in a transaction."""

    def take_message() -> None:
        take(QUEUE)
        raise InterruptedError

    put(QUEUE, "a message")
    writes.clear()
    monkeypatch.setattr(worker, "NICENESS", 0)
    monkeypatch.setattr(worker, "_remove_file_queue", take_message)
    with pytest.raises(InterruptedError):
        worker.run_worker()
    assert writes == [True]
