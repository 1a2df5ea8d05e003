"""The items that the runs of a process hold in memory while models are called."""

from typing import Any
from uuid import uuid4
from weakref import ref

import pytest

from historyapp.core.entries import EntryDraft, ModelOutput
from historyapp.core.strategies.base import Material
from historyapp.models import CompressionItem, Project, Session
from historyapp.services.append import append
from historyapp.services.compression import items as items_module
from historyapp.services.compression import run as compression_run
from historyapp.services.compression.items import (
    BYTES_IN_MEMORY,
    BytesInMemory,
    Job,
    ReadItems,
    plan,
    read_jobs,
)
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import start_run
from tests.llm.loopback import Answer, Loopback
from tests.services.compression.conftest import Compress
from tests.services.drafts import act, ask, ok

# A run's database work happens in a thread of its own, which sees only what has been committed.
pytestmark = pytest.mark.django_db(transaction=True)


def test_providers_messages_are_not_held(project: Project, session: Session) -> None:
    output = act("ls")
    raw = {
        "raw_message": {"role": "assistant", "extra": "long " * 100_000},
        "reasoning": [{"text": "long " * 100_000}],
    }
    long_output = EntryDraft(output.body.model_copy(update=raw))
    append(project, session.pk, [ask("go"), long_output, ok(), act("end")])
    run = start_run(project, session.pk, RunRequest("simple_extract", from_step=1, to_step=1)).run
    plan(run.pk)
    run.refresh_from_db()
    (job,) = read_jobs(run, list(run.items.all())).jobs
    assert isinstance(job.source, Material)
    (step,) = job.source.episodes
    assert step.output is not None
    assert (step.output.raw_message, step.output.reasoning) == (None, [])
    assert 0 < job.size < 5_000


def test_a_run_holds_few_long_items_while_its_model_is_called(
    project: Project,
    session: Session,
    compress: Compress,
    loopback: Loopback,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in range(10):
        append(project, session.pk, [act("read", path=str(number)), ok(outputs=" " * 100_000 + "end")])
    append(project, session.pk, [act("end")])
    held, outputs = list[int](), list[ref[ModelOutput]]()

    def read(*arguments: Any) -> ReadItems:
        items = read_jobs(*arguments)
        for job in items.jobs:
            assert isinstance(job.source, Material)
            outputs.extend(ref(step.output) for step in job.source.episodes if step.output)
        return items

    def answer(_: object) -> Answer:
        held.append(sum(output() is not None for output in outputs))
        return Answer(text="Read it.", pause=0.2)

    monkeypatch.setattr(compression_run, "read_jobs", read)

    loopback.default = answer
    monkeypatch.setattr(items_module, "MAX_BYTES", 250_000)
    run = compress(Session.objects.get(pk=session.pk), from_step=1, to_step=10)
    assert (run.state, run.done) == ("succeeded", 10)
    # Three items reach the limit, the next one is read before it, and one result may not be stored yet.
    assert 1 <= max(held) <= 6
    assert BYTES_IN_MEMORY.room(uuid4(), ()) == items_module.MAX_BYTES, "the run has ended and holds nothing"


def test_runs_together_hold_a_limited_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items_module, "MAX_BYTES", 100)
    monkeypatch.setattr(items_module, "MAX_BYTES_OF_ALL_RUNS", 250)
    held, first, second, third = BytesInMemory(), uuid4(), uuid4(), uuid4()

    def job(size: int) -> Job:
        return Job(CompressionItem(), [], size)

    assert held.room(first, [job(30), job(50)]) == 20
    assert held.room(first, [job(150)]) is None, "the run has as much as one run may hold"
    assert held.room(second, [job(80)]) == 20, "both have 230"
    assert held.room(third, [job(30)]) is None, "all three have 260"
    assert held.room(third, []) == 20
    assert held.room(second, [job(100)]) is None
    assert held.room(third, []) == 0, "it may read one item, so it makes progress"
    held.forget(first)
    assert held.room(third, []) == 100
