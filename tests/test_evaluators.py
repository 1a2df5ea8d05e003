"""The threads of a worker that work on evaluations."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError

from historyapp import evaluators, tasks
from historyapp.models import EvaluatedSession, Evaluation, Project
from historyapp.models.database_clock import claim_now
from historyapp.services.evaluations.scheduler import EvaluationScheduler
from historyapp.services.evaluations.start import EvaluationRequest, cancel_evaluation, start_evaluation
from historyapp.services.evaluations.work import process_evaluation
from historyapp.work_threads import WorkThreads
from tests.services.evaluations.lookups import record_lookups

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _own_turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(evaluators, "SCHEDULER", EvaluationScheduler())
    monkeypatch.setattr(tasks, "EVALUATION_SCHEDULER", evaluators.SCHEDULER)
    threads = WorkThreads(
        "evaluations", evaluators.EVALUATIONS_AT_ONCE, lambda: evaluators.work_on_evaluations()
    )
    monkeypatch.setattr(evaluators, "EVALUATORS", threads)
    yield
    threads.wait()


def _evaluation(project: Project) -> Evaluation:
    request = EvaluationRequest([record_lookups(project).pk], budgets=(2000,), policies=("live",))
    return start_evaluation(project, request)


def _begun(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """The evaluations whose time slices begin from now on, in order."""
    begun: list[UUID] = []

    def process(evaluation: UUID, should_stop: Any) -> bool:
        begun.append(evaluation)
        return process_evaluation(evaluation, should_stop)

    monkeypatch.setattr(evaluators, "process_evaluation", process)
    return begun


def test_one_message_works_on_all_evaluations_and_on_another_project_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = (Project.objects.create(name=name) for name in ("ours", "theirs"))
    evaluations = [_evaluation(ours), _evaluation(ours), _evaluation(theirs)]
    begun = _begun(monkeypatch)
    tasks.evaluate(str(evaluations[0].pk))
    evaluators.EVALUATORS.wait()
    assert begun == [evaluations[number].pk for number in (0, 2, 1)]
    assert set(Evaluation.objects.values_list("state", flat=True)) == {"finished"}
    assert not tasks.is_busy()


def test_an_evaluation_yields_only_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluators, "SLICE_SECONDS", -1)
    ours, theirs = (Project.objects.create(name=name) for name in ("ours", "theirs"))
    first, second = _evaluation(ours), _evaluation(theirs)
    begun = _begun(monkeypatch)
    evaluators.work_on_evaluations()
    assert begun == [first.pk, second.pk] * 3, "a step in each slice"
    begun.clear()
    alone = _evaluation(ours)
    evaluators.work_on_evaluations()
    assert begun == [alone.pk]


def test_a_project_has_one_thread_so_that_others_need_not_wait_for_one() -> None:
    ours, theirs = (Project.objects.create(name=name) for name in ("ours", "theirs"))
    first, second = _evaluation(ours), _evaluation(ours)
    assert [evaluators.SCHEDULER.take() for _ in range(2)] == [first.pk, None]
    assert list(evaluators.SCHEDULER.candidates(first.pk)) == [second.pk], "they take turns"
    other = _evaluation(theirs)
    assert evaluators.SCHEDULER.take() == other.pk


def test_an_evaluation_that_another_worker_measures_or_that_was_cancelled_is_not_taken() -> None:
    project = Project.objects.create(name="ours")
    measured, cancelled, waiting = (_evaluation(project) for _ in range(3))
    claims = EvaluatedSession.objects.filter(evaluation=measured)
    claims.update(claim=uuid4(), claimed_until=claim_now() - timedelta(seconds=1))
    cancel_evaluation(cancelled)
    assert list(evaluators.SCHEDULER.candidates()) == [measured.pk, waiting.pk], "the claim has expired"
    claims.update(claim=uuid4(), claimed_until=claim_now() + timedelta(seconds=20))
    assert list(evaluators.SCHEDULER.candidates()) == [waiting.pk]
    EvaluatedSession.objects.filter(evaluation=waiting).update(state="done")
    assert list(evaluators.SCHEDULER.candidates()) == [waiting.pk], "it must be ended"


def test_messages_keep_no_task_thread_and_start_at_most_two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise evaluations would delay webhooks, indexes and bulk actions."""
    release, entered = threading.Event(), threading.Semaphore(0)

    def work() -> None:
        entered.release()
        assert release.wait(30)

    monkeypatch.setattr(evaluators, "work_on_evaluations", work)
    for _ in range(20):
        tasks.evaluate(str(uuid4()))
    try:
        for _ in range(evaluators.EVALUATIONS_AT_ONCE):
            assert entered.acquire(timeout=30)
        assert not evaluators.start_evaluator()
    finally:
        release.set()
    evaluators.EVALUATORS.wait()
    assert not entered.acquire(blocking=False)


def test_the_clock_finds_evaluations_without_a_message() -> None:
    evaluation = _evaluation(Project.objects.create(name="ours"))
    evaluators.find_waiting_evaluations()
    evaluators.EVALUATORS.wait()
    evaluation.refresh_from_db()
    assert evaluation.state == "finished"


def test_a_worker_is_busy_while_it_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    _evaluation(Project.objects.create(name="ours"))
    busy: list[bool] = []

    def measure(evaluation: UUID, should_stop: Any) -> bool:
        busy.append(tasks.is_busy())
        return process_evaluation(evaluation, should_stop)

    monkeypatch.setattr(evaluators, "process_evaluation", measure)
    evaluators.work_on_evaluations()
    assert (busy, tasks.is_busy()) == ([True], False)


def test_an_evaluation_that_cannot_be_stored_waits_while_others_are_worked_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = Project.objects.create(name="ours")
    _evaluation(project)
    other = _evaluation(project)

    def fail(*arguments: object) -> bool:
        raise OperationalError("the disk is full")

    monkeypatch.setattr(evaluators, "process_evaluation", fail)
    with pytest.raises(OperationalError):
        evaluators.work_on_evaluations()
    assert list(evaluators.SCHEDULER.candidates()) == [other.pk]
