"""A process that writes summaries is ended when one takes too long. The others are not lost or paid twice."""

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from uuid import uuid4

import pytest
from django.db import connection

from historyapp.core.entries import Body
from historyapp.core.errors import Invalid
from historyapp.core.strategies import STRATEGIES
from historyapp.core.strategies.base import Material, NotSummarised, SummaryPrompt
from historyapp.core.strategies.writing import WriteRequest
from historyapp.models import CompressionRun, Project, Session
from historyapp.services.append import append
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import cancel_run, start_run
from historyapp.services.sessions import create_session
from historyapp.services.summary_writers import writers
from historyapp.services.summary_writers.writers import (
    Caller,
    InlineWriter,
    ProcessWriter,
    SummaryTookTooLong,
    WriteCancelled,
)
from tests.core.strategies.scripted import called, steps
from tests.services.compression import spinning_writer_process
from tests.services.compression.forked_writers import forked_writers
from tests.services.compression.spinning_writer_process import BUSY, ENDLESS, SPIN
from tests.services.drafts import act, ok


@pytest.fixture(autouse=True)
def _cancelled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless summary takes processor time until its cancellation is noticed."""
    monkeypatch.setattr(writers, "CANCEL_CHECK_SECONDS", 0.05)


@pytest.fixture(scope="module")
def writer() -> Iterator[ProcessWriter]:
    writer = ProcessWriter()
    yield writer
    writer.stop()


@pytest.fixture(scope="module")
def spinning() -> Iterator[ProcessWriter]:
    with forked_writers(spinning_writer_process.__name__):
        writer = ProcessWriter(spinning_writer_process.__name__)
        yield writer
        writer.stop()


def request(*bodies: list[Body], strategy: str = "simple_extract") -> WriteRequest:
    return WriteRequest(strategy, Material(steps(*bodies)), "en_core_web_sm", window=100_000, max_length=8000)


STEPS = request(called("three files", path="src/a.py"), called("no such file", status="error", path="b.py"))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_both_writers_write_the_same(writer: ProcessWriter, strategy: str) -> None:
    write_request = request(*[called(f"line {n} of src/a_{n}.py\n" * 9) for n in range(3)], strategy=strategy)
    assert writer.write(write_request, None) == InlineWriter().write(write_request, None)


def test_both_writers_digest_the_same(writer: ProcessWriter) -> None:
    texts = [f"The file src/a_{n}.py was read.\n" * 20 for n in range(9)]
    write_request = WriteRequest("ai_summary", texts, "en_core_web_sm", window=100_000, max_length=500)
    assert writer.write(write_request, None) == InlineWriter().write(write_request, None)


def test_the_process_asks_the_model_through_its_parent(spinning: ProcessWriter) -> None:
    prompts: list[SummaryPrompt] = []

    def complete(prompt: SummaryPrompt) -> str:
        prompts.append(prompt)
        return f"It read file {len(prompts)}."

    draft = spinning.write(replace(STEPS, strategy="episode_summary"), complete).draft
    assert "It read file 1." in draft.text
    assert "src/a.py" in prompts[0].material
    assert len(prompts) == 2


@pytest.mark.parametrize("error", [NotSummarised("The model refused."), Invalid("There is no such model.")])
def test_the_error_of_a_model_call_reaches_the_caller(spinning: ProcessWriter, error: Exception) -> None:
    def complete(prompt: SummaryPrompt) -> str:
        raise error

    with pytest.raises(type(error), match=str(error)):
        spinning.write(replace(STEPS, strategy="episode_summary"), complete)


def test_a_summary_that_waits_for_its_model_is_not_paid_twice(spinning: ProcessWriter) -> None:
    calls: list[str] = []
    waits, stopped = Event(), Event()

    def complete(prompt: SummaryPrompt) -> str:
        calls.append(prompt.material)
        waits.set()
        assert stopped.wait(60)
        return "It read a file."

    innocent = replace(request(called("ok")), strategy="episode_summary")
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(spinning.write, innocent, complete)
        assert waits.wait(60)
        with pytest.raises(SummaryTookTooLong, match="processor time"):
            spinning.write(request(called("ok", path=SPIN)), None)
        stopped.set()
        assert "It read a file." in written.result(60).draft.text
    assert len(calls) == 1


def test_a_paid_answer_outlives_several_processes_that_are_killed_while_they_are_idle(
    spinning: ProcessWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts: list[SummaryPrompt] = []
    start, kills = spinning._lane.process, [True] * (writers.MAX_STARTS - 2)

    def kill() -> None:
        process = start()
        process._child.kill()
        while not process.ended:
            time.sleep(0.001)

    def killed_at_first() -> writers._WriterProcess:
        if prompts and kills and kills.pop():
            kill()
            return killed
        return start()

    def complete(prompt: SummaryPrompt) -> str:
        prompts.append(prompt)
        if len(prompts) == 1:
            kill()
        return "It read a file."

    killed = start()
    monkeypatch.setattr(spinning._lane, "process", killed_at_first)
    monkeypatch.setattr(writers, "FIRST_PAUSE", 0)
    draft = spinning.write(replace(STEPS, strategy="episode_summary"), complete).draft
    assert "It read a file." in draft.text
    assert (len(prompts), kills) == (2, [])


def test_a_process_that_ends_repeatedly_causes_no_endless_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "FIRST_PAUSE", 0)
    with pytest.raises(NotSummarised, match="ended several times"):
        ProcessWriter("platform").write(STEPS, None)  # it ends at once


def test_a_summary_that_waits_for_a_new_process_can_be_cancelled() -> None:
    """It waited for up to 15.5 s, and then failed."""
    ends: list[str] = []

    def work(caller: Caller, lane: writers._Lane) -> None:
        ends.append("idle")
        raise writers._ProcessEnded(while_working=False)

    with pytest.raises(WriteCancelled):
        ProcessWriter()._with_lane(Caller(uuid4(), lambda: bool(ends)), work)
    assert len(ends) == 1


def test_only_the_first_summary_waits_for_processes_that_cannot_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of 1,000 steps waited for 15.5 s."""
    pauses: list[float] = []
    monkeypatch.setattr(writers, "_pause", lambda seconds, _: pauses.append(seconds))
    writer, caller, can_start = ProcessWriter(), a_caller(), False

    def work(caller: Caller, lane: writers._Lane) -> str:
        if can_start:
            return "written"
        raise writers._ProcessEnded(while_working=False)

    def write() -> None:
        with pytest.raises(NotSummarised, match="ended several times"):
            writer._with_lane(caller, work)

    write()
    write()
    assert pauses == [0.5, 1, 2, 4, 8]
    can_start = True
    assert writer._with_lane(caller, work) == "written"
    can_start = False
    write()
    assert len(pauses) == 10


def a_caller(cancelled: Event | None = None) -> Caller:
    """A caller of a project of its own."""
    return Caller(uuid4(), (cancelled or Event()).is_set)


def wait_until_it_writes(writer: ProcessWriter) -> None:
    """Waits until one of the processes is writing a summary."""
    end = time.monotonic() + 60
    while not any(lane.works_longer_than(0) for lane in (writer._lane, writer._slow_lane)):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_long_summary_does_not_delay_another_project(
    spinning: ProcessWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "SLICE_SECONDS", 0.05)
    cancelled = Event()
    attacker = a_caller(cancelled)
    with ThreadPoolExecutor(2) as pool:
        endless = [
            pool.submit(spinning.write, request(called("ok", path=ENDLESS)), None, attacker) for _ in range(2)
        ]
        wait_until_it_writes(spinning)
        for _ in range(3):
            other = a_caller()
            assert spinning.language_note("en_core_web_sm", other) == ""
            assert "src/a.py" in spinning.write(STEPS, None, other).draft.text
        assert not any(future.done() for future in endless)
        cancelled.set()
        for future in endless:
            with pytest.raises(WriteCancelled):
                future.result(60)


def test_a_project_that_cancels_its_summaries_ends_the_process_of_others_only_once(
    spinning: ProcessWriter,
) -> None:
    project = uuid4()

    def cancel_a_summary(pool: ThreadPoolExecutor) -> None:
        cancelled = Event()
        caller = Caller(project, cancelled.is_set)
        written = pool.submit(spinning.write, request(called("ok", path=ENDLESS)), None, caller)
        wait_until_it_writes(spinning)
        cancelled.set()
        with pytest.raises(WriteCancelled):
            written.result(60)

    first = spinning._lane.process()
    with ThreadPoolExecutor(1) as pool:
        cancel_a_summary(pool)
        second = spinning._lane.process()
        assert second is not first, "nobody gets the process that was killed"
        cancel_a_summary(pool)
    assert spinning._lane.process() is second
    assert "src/a.py" in spinning.write(STEPS, None, a_caller()).draft.text
    assert spinning._lane.process() is second


def test_a_long_summary_that_makes_room_for_others_is_written_in_the_end(
    spinning: ProcessWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "SLICE_SECONDS", 0.05)
    monkeypatch.setattr(writers, "SLOW_SECONDS", 1.0)
    with ThreadPoolExecutor(1) as pool:
        long = pool.submit(spinning.write, request(called("ok", path=BUSY)), None, a_caller())
        wait_until_it_writes(spinning)
        assert "src/a.py" in spinning.write(STEPS, None, a_caller()).draft.text
        assert BUSY in long.result(60).draft.text
    second = spinning._slow_lane.process()
    until = time.monotonic() + 60
    while not second.ended and time.monotonic() < until:
        time.sleep(0.1)
    assert second.ended, "the second process ends when nobody uses it"


def test_a_summary_that_waits_for_its_model_is_not_paid_twice_when_a_long_one_makes_room(
    spinning: ProcessWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "SLICE_SECONDS", 0.05)
    calls: list[str] = []
    waits, answered, cancelled = Event(), Event(), Event()

    def complete(prompt: SummaryPrompt) -> str:
        calls.append(prompt.material)
        waits.set()
        assert answered.wait(60)
        return "It read a file."

    innocent = replace(request(called("ok")), strategy="episode_summary")
    with ThreadPoolExecutor(2) as pool:
        written = pool.submit(spinning.write, innocent, complete, a_caller())
        assert waits.wait(60)
        endless = request(called("ok", path=ENDLESS))
        long = pool.submit(spinning.write, endless, None, a_caller(cancelled))
        wait_until_it_writes(spinning)
        assert "src/a.py" in spinning.write(STEPS, None, a_caller()).draft.text
        answered.set()
        assert "It read a file." in written.result(60).draft.text
        cancelled.set()
        with pytest.raises(WriteCancelled):
            long.result(60)
    assert len(calls) == 1


@pytest.mark.django_db(transaction=True)
def test_a_step_that_takes_too_long_is_named_and_the_others_summarised(
    project: Project, spinning: ProcessWriter, caplog: pytest.LogCaptureFixture
) -> None:
    session, other = (_session(project, path) for path in (SPIN, "b.py"))
    runs = [_run(project, each, spinning) for each in (session, other)]
    assert [(run.state, run.done, run.failed) for run in runs] == [
        ("partly_failed", 3, 1),
        ("succeeded", 4, 0),
    ]
    assert "Step 2: Writing the summary took more than 0 s of processor time" in runs[0].note
    failed = runs[0].items.get(state="failed")
    assert (failed.first_step, failed.error[:7]) == (2, "Step 2:")
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "(step 2)" in line
    assert str(runs[0].pk) in line


def _session(project: Project, second: str) -> Session:
    session = create_session(project)
    paths = ["a.py", second, "c.py", "d.py", "e.py", "f.py"]
    append(project, session.pk, [draft for path in paths for draft in (act("read", path=path), ok())])
    return session


def _run(project: Project, session: Session, writer: ProcessWriter) -> CompressionRun:
    run = start_run(project, session.pk, RunRequest("simple_extract", to_step=4)).run
    process_run(run.pk, writer=writer)
    return CompressionRun.objects.get(pk=run.pk)


@pytest.mark.django_db(transaction=True)
def test_a_cancelled_run_ends_the_summary_that_is_being_written(
    project: Project, spinning: ProcessWriter
) -> None:
    session = _session(project, ENDLESS)
    run = start_run(project, session.pk, RunRequest("simple_extract", to_step=4)).run

    def cancel() -> None:
        wait_until_it_writes(spinning)
        cancel_run(CompressionRun.objects.get(pk=run.pk))
        connection.close()

    with ThreadPoolExecutor(1) as pool:
        cancelled = pool.submit(cancel)
        process_run(run.pk, writer=spinning)
        cancelled.result()
    run.refresh_from_db()
    assert (run.state, run.failed) == ("cancelled", 0)
    assert set(run.items.filter(number__gte=2).values_list("state", flat=True)) == {"waiting"}
