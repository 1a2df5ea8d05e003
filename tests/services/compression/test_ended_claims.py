"""No model call is made by a worker whose claim or run has ended: another worker may make and pay it."""

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from historyapp.core.strategies.base import Complete, SummaryDraft, SummaryPrompt
from historyapp.core.strategies.writing import WriteRequest, WrittenSummary
from historyapp.models import CompressionItem, CompressionRun, Project, Session, Summary
from historyapp.models.database_clock import claim_now, elapsed
from historyapp.services.append import append
from historyapp.services.compression import active_runs, summarise
from historyapp.services.compression import run as run_module
from historyapp.services.compression.claims import claim
from historyapp.services.compression.items import plan, read_jobs
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import cancel_run, retry_run, start_run
from historyapp.services.compression.store import store_results
from historyapp.services.compression.summarise import ClaimEnded, ItemResult, MeteredModel, Summariser
from historyapp.services.connections import short_connection
from historyapp.services.deletions import hide
from historyapp.services.sessions import create_session
from historyapp.services.summary_writers.writers import NOBODY, Caller, InlineWriter
from historyapp.services.transactions import writing
from tests.llm.loopback import Answer, Loopback, Refusal
from tests.services.compression.conftest import Record
from tests.services.compression.threads import run_thread
from tests.services.drafts import act, ok

PROMPT = SummaryPrompt("Summarise the step.", "<data-1>It failed.</data-1>", 200)
ITEMS = 4
"""The items of a run of eight steps."""
MODEL = RunRequest(strategy="episode_summary", model="gpt-5-mini")


@pytest.mark.django_db(transaction=True)
def test_no_call_is_paid_twice_after_a_worker_was_stopped_for_longer_than_its_claims(
    record: Record, project: Project, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls of the stopped worker are about to begin. Meanwhile another worker takes all its items."""
    run = start_run(project, record(8).pk, MODEL).run
    plan(run.pk)
    about_to_call, others_done = threading.Semaphore(0), threading.Event()
    stopped_seconds, numbers = [0.0], itertools.count(1)
    monkeypatch.setattr(run_module, "elapsed", lambda: elapsed() + stopped_seconds[0])

    def wait_for_provider(*_: object) -> None:
        if next(numbers) <= ITEMS:
            about_to_call.release()
            others_done.wait(60)

    monkeypatch.setattr(summarise, "wait_for_provider", wait_for_provider)
    stopped = run_thread(run.pk)
    stopped.start()
    try:
        assert all(about_to_call.acquire(timeout=60) for _ in range(ITEMS))
        run.items.update(claimed_until=claim_now() - timedelta(seconds=1))
        process_run(run.pk)
    finally:
        stopped_seconds[0] = 3600.0
        others_done.set()
        stopped.join(60)
    run.refresh_from_db()
    assert (run.state, run.done) == ("succeeded", run.total)
    assert len(loopback.requests) == run.calls == run.total == ITEMS


@pytest.mark.skipif("sys.platform != 'linux'", reason="only Linux has a clock that counts suspensions")
def test_claims_end_while_the_machine_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {time.CLOCK_BOOTTIME: 7200.0, time.CLOCK_MONOTONIC: 60.0}
    monkeypatch.setattr(time, "clock_gettime", times.__getitem__)
    assert elapsed() == 7200


def test_no_call_is_made_once_the_claim_has_ended(loopback: Loopback) -> None:
    model = MeteredModel("gpt-5-mini", None, lambda: False)
    with pytest.raises(ClaimEnded):
        model.complete(PROMPT)
    assert (loopback.requests, model.usage.calls) == ([], 0)


@pytest.mark.django_db(transaction=True)
def test_claims_of_running_calls_are_renewed_however_late_the_next_write_is(
    record: Record,
    project: Project,
    loopback: Loopback,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.PLAYHEAD_CONCURRENCY, settings.PLAYHEAD_CLAIM_SECONDS = ITEMS, 3
    monkeypatch.setattr(run_module, "BUSY_WRITE_PAUSE", 12)
    run = start_run(project, record(8).pk, MODEL).run
    received, may_continue = threading.Semaphore(0), threading.Event()

    def answer(_: object) -> Answer:
        received.release()
        may_continue.wait(60)
        return Answer(text="Read it.")

    loopback.default = answer
    worker = run_thread(run.pk)
    worker.start()
    try:
        assert all(received.acquire(timeout=60) for _ in range(ITEMS))
        run.items.update(claimed_until=claim_now() - timedelta(seconds=1))
        deadline = time.monotonic() + 8
        while run.items.filter(claimed_until__lt=claim_now()).exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        expired = run.items.filter(claimed_until__lt=claim_now()).count()
    finally:
        may_continue.set()
        worker.join(60)
    run.refresh_from_db()
    assert (expired, run.state, run.calls) == (0, "succeeded", ITEMS)


def test_a_call_is_not_repeated_if_the_claim_ends_during_the_pause(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    loopback.default = lambda _: Refusal(500)
    may_call = iter([True, False])
    monkeypatch.setattr(summarise, "sleep", lambda _: None)
    model = MeteredModel("gpt-5-mini", None, lambda: next(may_call))
    with pytest.raises(ClaimEnded):
        model.complete(PROMPT)
    assert len(loopback.requests) == model.usage.calls == 1


class TwoCalls(InlineWriter):
    """Makes two model calls for each summary."""

    def write(
        self, request: WriteRequest, complete: Complete | None, caller: Caller = NOBODY
    ) -> WrittenSummary:
        assert complete is not None
        complete(PROMPT)
        complete(PROMPT)
        return super().write(request, complete, caller)


@pytest.mark.django_db(transaction=True)
def test_the_first_call_of_an_item_is_counted_if_the_claim_ends_before_the_second(
    record: Record, project: Project, loopback: Loopback
) -> None:
    run = start_run(project, record(6).pk, MODEL).run
    plan(run.pk)
    owner, may_call = uuid4(), iter([True, False])
    run = CompressionRun.objects.select_related("session__project").get(pk=run.pk)
    (job,) = read_jobs(run, claim(run.pk, owner, 1)).jobs
    result = Summariser(run, TwoCalls()).summarise(job.item, job.source, lambda: next(may_call))
    store_results(run.pk, owner, [result])
    run.refresh_from_db()
    job.item.refresh_from_db()
    assert (run.calls, run.done, run.failed, job.item.state) == (1, 0, 0, "claimed")
    assert run.tokens_in > 0
    assert len(loopback.requests) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("deletes", [False, True])
def test_a_long_step_has_no_further_calls_after_its_run_was_cancelled_or_its_session_deleted(
    project: Project, loopback: Loopback, monkeypatch: pytest.MonkeyPatch, deletes: bool
) -> None:
    for module in (active_runs, run_module):
        monkeypatch.setattr(module, "CANCEL_CHECK_SECONDS", 0.05)
    session = create_session(project)
    long_text = "".join(f"line {n} of src/module_{n}.py says {n * 7919}\n" for n in range(30_000))
    append(project, session.pk, [act("read", path="a.py"), ok(outputs=long_text)])
    run = start_run(project, session.pk, replace(MODEL, from_step=1, to_step=1)).run

    def answer(_: object) -> Answer:
        if len(loopback.requests) == 2:
            with short_connection():
                if deletes:
                    with writing():
                        hide(Session.objects.get(pk=session.pk), "Alice")
                else:
                    cancel_run(CompressionRun.objects.get(pk=run.pk))
            time.sleep(1)
        return Answer(text="It was done in this part.")

    loopback.default = answer
    process_run(run.pk)
    assert len(loopback.requests) == 2
    if not deletes:
        run.refresh_from_db()
        assert (run.state, run.calls, run.done) == ("cancelled", 2, 0)


def stored_at_the_second_check(
    run: CompressionRun, owner: UUID, items: Sequence[CompressionItem], monkeypatch: pytest.MonkeyPatch
) -> Iterator[int]:
    """Lets the calls of a cancelled run end when another run claims items the second time.

    Returns a counter: its next number is one more than that of the claims.
    """
    checks = itertools.count(1)
    results = [ItemResult(item.pk, SummaryDraft("It was done."), tokens=5) for item in items]

    def claim_later(run_id: UUID, own: UUID, limit: int) -> list[CompressionItem]:
        if next(checks) == 2:
            store_results(run.pk, owner, results)
        return claim(run_id, own, limit)

    monkeypatch.setattr(run_module, "claim", claim_later)
    return checks


@pytest.mark.django_db(transaction=True)
def test_a_new_run_waits_for_the_calls_of_a_cancelled_one_and_keeps_their_summaries(
    record: Record, project: Project, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It made the calls again: 8 calls for 4 items."""
    session = record(8)
    first, owner = start_run(project, session.pk, MODEL).run, uuid4()
    plan(first.pk)
    items = claim(first.pk, owner, ITEMS)
    cancel_run(first)
    checks = stored_at_the_second_check(first, owner, items, monkeypatch)
    second = start_run(project, session.pk, MODEL).run
    process_run(second.pk)
    second.refresh_from_db()
    assert next(checks) >= 3
    assert (second.state, second.done, loopback.requests) == ("succeeded", ITEMS, [])


@pytest.mark.django_db(transaction=True)
def test_a_retried_run_pays_for_no_step_that_a_later_run_has_summarised(
    record: Record, project: Project, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """46 calls for 30 items."""
    session = record(8)
    first, owner = start_run(project, session.pk, MODEL).run, uuid4()
    plan(first.pk)
    cancel_run(first)
    second = start_run(project, session.pk, replace(MODEL, from_step=1, to_step=2)).run
    plan(second.pk)
    items = claim(second.pk, owner, ITEMS)
    assert len(items) == 2
    cancel_run(second)
    checks = stored_at_the_second_check(second, owner, items, monkeypatch)
    process_run(retry_run(first).pk)
    first.refresh_from_db()
    assert next(checks) >= 3, "it waits for the calls of the other run"
    assert (first.state, first.done, first.total) == ("succeeded", ITEMS, ITEMS)
    assert len(loopback.requests) == ITEMS - 2
    assert Summary.objects.count() == ITEMS
