"""A worker that loses its connection ends its claims as soon as the database is back."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from math import inf
from typing import Any
from unittest.mock import Mock, call
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError

from historyapp import work_threads
from historyapp.models import EvaluatedSession, Project, Session, Webhook
from historyapp.models.database_clock import claim_now
from historyapp.services import lost_claims, transactions
from historyapp.services.compression import run
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import start_run
from historyapp.services.evaluations import work as evaluations
from historyapp.services.evaluations.start import EvaluationRequest, start_evaluation
from historyapp.services.fair_scheduler import FairScheduler
from historyapp.services.lost_claims import end_claim, end_waiting_claims
from historyapp.services.webhooks import delivery
from historyapp.services.webhooks.endpoints import create_webhook
from historyapp.wire.problems import DatabaseReadOnly, DatabaseUnreachable, StorageFailed
from historyapp.work_threads import work_in_slices
from tests.services.evaluations.lookups import record_lookups

pytestmark = pytest.mark.django_db
BROKEN = OperationalError("terminating connection due to administrator command")


@pytest.fixture(autouse=True)
def waiting() -> Iterator[dict[Any, float]]:
    """The claims that have not ended."""
    yield lost_claims._waiting
    lost_claims._waiting.clear()


@pytest.fixture
def session(project: Project) -> Session:
    return record_lookups(project)


def fail(*_: Any, **__: Any) -> Any:
    raise BROKEN


Work = tuple[Any, str, Any, str, Callable[[], object], Callable[[], bool]]
"""What fails, how the claim ends, the work, and whether others can continue it."""


def on_run(session: Session) -> Work:
    started = start_run(session.project, session.pk, RunRequest("simple_extract", 1, 3)).run

    def is_free() -> bool:
        return started.items.claimable(claim_now()).count() == 3

    return run, "leave_out_needless", run, "release", lambda: run.process_run(started.pk), is_free


def on_webhook(session: Session) -> Work:
    webhook = create_webhook(session.project, "https://example.com/")

    def is_free() -> bool:
        return Webhook.objects.get().claim is None

    def work() -> None:
        delivery.process_webhook(webhook.pk, lambda: False)

    return delivery, "add_deliveries", delivery, "_release", work, is_free


def on_evaluation(session: Session) -> Work:
    evaluation = start_evaluation(session.project, EvaluationRequest([session.pk]))

    def is_free() -> bool:
        return EvaluatedSession.objects.get().claim is None

    def work() -> None:
        evaluations.process_evaluation(evaluation.pk, lambda: False)

    return evaluations, "_measure", evaluations, "_release", work, is_free


@pytest.mark.parametrize("kind", [on_run, on_webhook, on_evaluation])
@pytest.mark.parametrize("is_away", [False, True])
def test_work_whose_connection_broke_can_be_continued_once_the_database_is_back(
    session: Session, monkeypatch: pytest.MonkeyPatch, kind: Callable[[Session], Work], *, is_away: bool
) -> None:
    """It waited until the claim expired, for 30 seconds."""
    module, name, owner, release, work, is_free = kind(session)
    real, is_first = getattr(owner, release), [True]

    def end(*arguments: Any) -> None:
        if is_away and is_first and is_first.pop():
            raise BROKEN
        real(*arguments)

    monkeypatch.setattr(owner, release, end)
    monkeypatch.setattr(module, name, fail)
    with pytest.raises(OperationalError):
        work()
    assert is_free() is not is_away
    end_waiting_claims()
    assert is_free()
    assert not lost_claims._waiting


def test_the_clock_tries_all_claims_again_until_they_end_or_expire(
    waiting: dict[Any, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    away, ended = {1, 2}, list[int]()

    def release(number: int) -> None:
        if number in away:
            raise BROKEN
        ended.append(number)

    for number in (1, 2):
        end_claim(partial(release, number))
    away.discard(2)
    with pytest.raises(OperationalError):
        end_waiting_claims()
    assert ended == [2]
    monkeypatch.setattr(time, "monotonic", lambda: inf)
    end_waiting_claims()
    assert (ended, waiting) == ([2], {})


def test_the_clock_waits_only_briefly_for_other_writers(
    waiting: dict[Any, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another program had locked the database, four claims stopped it for 80 seconds."""
    clock = Mock(monotonic=Mock(return_value=0.0))
    monkeypatch.setattr(lost_claims, "time", clock)

    def wait() -> None:
        seconds = transactions._max_wait.get()
        clock.monotonic.return_value += 20 if seconds is None else seconds
        raise BROKEN

    waiting |= {partial(wait): inf for _ in range(4)}
    with pytest.raises(OperationalError):
        end_waiting_claims()
    assert clock.monotonic() == lost_claims.MAX_WAIT
    assert len(waiting) == 4


@pytest.mark.parametrize("is_first", [True, False])
def test_claims_end_over_a_connection_that_works(
    waiting: dict[Any, float], monkeypatch: pytest.MonkeyPatch, *, is_first: bool
) -> None:
    calls = Mock(in_atomic_block=False)
    monkeypatch.setattr(lost_claims, "connection", calls)
    if is_first:
        end_claim(calls.release)
    else:
        waiting[calls.release] = inf
        end_waiting_claims()
    assert calls.mock_calls == [call.close_if_unusable_or_obsolete(), call.release()]


class OneWork(FairScheduler):
    """A scheduler with one piece of work, which notes how long the work waits after each slice."""

    def __init__(self) -> None:
        self.id, self.waits, self.is_taken = uuid4(), list[float | None](), False
        self.projects = {self.id: uuid4()}

    def take(self) -> UUID | None:
        self.is_taken = not self.is_taken
        return self.id if self.is_taken else None

    def end(self, id: UUID, wait: timedelta | None = None) -> None:
        self.is_taken = False
        self.waits.append(wait.total_seconds() if wait else None)

    active = with_work = Mock()


@pytest.mark.parametrize("fault", [DatabaseUnreachable, DatabaseReadOnly])
def test_work_whose_connection_broke_waits_for_a_second_and_then_longer(
    monkeypatch: pytest.MonkeyPatch, settings: Any, fault: type[StorageFailed]
) -> None:
    """Work that makes PostgreSQL crash must not do so every second."""
    lost = fault("The connection broke, or the server is a standby.")
    monkeypatch.setattr(work_threads, "fault_of", {BROKEN: lost}.get)
    settings.PLAYHEAD_SWEEP_SECONDS = 5
    scheduler = OneWork()
    for error in (*[BROKEN] * 4, ValueError("other")):
        with pytest.raises(type(error)):
            work_in_slices(scheduler, Mock(side_effect=error))
    monkeypatch.setattr(scheduler, "take", Mock(side_effect=[scheduler.id, None]))
    work_in_slices(scheduler, lambda _: False)
    assert scheduler.waits == [1, 2, 4, 5, 5, None]
    assert scheduler.id not in work_threads._broken
