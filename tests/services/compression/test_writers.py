"""A process that writes summaries is ended when one takes too long. The others are not lost or paid twice."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import pytest

from historyapp.core.entries import Body
from historyapp.core.errors import Invalid
from historyapp.core.strategies import STRATEGIES
from historyapp.core.strategies.base import Material, NotSummarised, SummaryPrompt
from historyapp.core.strategies.writing import WriteRequest
from historyapp.models import CompressionRun, Project, Session
from historyapp.services.append import append
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import start_run
from historyapp.services.compression.writers import InlineWriter, ProcessWriter, SummaryTookTooLong
from historyapp.services.sessions import create_session
from tests.core.strategies.scripted import called, steps
from tests.services.compression import spinning_writer_process
from tests.services.compression.spinning_writer_process import SPIN
from tests.services.drafts import act, ok


@pytest.fixture(scope="module")
def writer() -> Iterator[ProcessWriter]:
    writer = ProcessWriter()
    yield writer
    writer.stop()


@pytest.fixture(scope="module")
def spinning() -> Iterator[ProcessWriter]:
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


def test_a_process_that_ends_repeatedly_causes_no_endless_loop() -> None:
    with pytest.raises(NotSummarised, match="ended several times"):
        ProcessWriter("platform").write(STEPS, None)  # it ends at once


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
