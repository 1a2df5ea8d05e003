"""Items with many bytes are read in bounded memory, or fail."""

import tracemalloc

import pytest

from historyapp.core.entries import EntryDraft, ModelInput
from historyapp.core.strategies.base import Material
from historyapp.models import CompressionRun, Project, Session, Summary
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.compression import items as items_module
from historyapp.services.compression import store
from historyapp.services.compression.items import plan, read_jobs, read_parts
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import start_run
from historyapp.services.summaries import SummaryText, add_summary
from tests.services.drafts import act, ask, ok

# A run's database work happens in a thread of its own, which sees only what has been committed.
pytestmark = pytest.mark.django_db(transaction=True)


def started(project: Project, session: Session, last: int, first: int = 1) -> CompressionRun:
    return start_run(project, session.pk, RunRequest("simple_extract", from_step=first, to_step=last)).run


def test_a_step_that_is_too_long_fails_and_the_others_get_their_summaries(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(project, session.pk, [ask("go"), act("ls"), ok(), act("cat")])
    for _ in range(5):
        append(project, session.pk, [ok(outputs="long " * 1000)])
    append(project, session.pk, [act("ls"), ok(), act("end")])
    run = started(project, session, 3)
    monkeypatch.setattr(items_module, "MAX_BYTES", 20_000)
    process_run(run.pk)
    run.refresh_from_db()
    assert (run.state, run.done, run.failed) == ("partly_failed", 2, 1)
    assert [item.error for item in run.items.filter(state="failed")] == [items_module.TOO_LONG]
    assert list(Summary.objects.order_by("first_step").values_list("first_step", flat=True)) == [1, 3]


def test_the_inputs_before_a_step_count_for_its_length(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(project, session.pk, [act("ls"), ok()])
    append(project, session.pk, [EntryDraft(ModelInput(content="long " * 1000)) for _ in range(5)])
    append(project, session.pk, [act("ls"), ok(), act("end")])
    run = started(project, session, 2)
    monkeypatch.setattr(items_module, "MAX_BYTES", 20_000)
    process_run(run.pk)
    run.refresh_from_db()
    assert (run.state, run.done, run.failed) == ("partly_failed", 1, 1)


def test_items_that_are_long_together_are_read_a_few_at_a_time(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(6):
        append(project, session.pk, [ask("go"), act("cat"), ok(outputs="long " * 1000)])
    append(project, session.pk, [act("end")])
    run = started(project, session, 6)
    monkeypatch.setattr(items_module, "MAX_BYTES", 22_000)
    assert plan(run.pk)
    run.refresh_from_db()
    read = read_jobs(run, list(run.items.order_by("number")))
    assert [job.item.number for job in read.jobs] == [1, 2, 3]
    assert (len(read.too_long), [item.number for item in read.unread]) == (0, [4, 5, 6])
    process_run(run.pk)
    run.refresh_from_db()
    assert (run.state, run.done) == ("succeeded", 6)


def test_items_have_the_same_steps_as_a_history(project: Project, session: Session) -> None:
    append(project, session.pk, [ask("go"), act("a"), ask("and"), ok(), act("b"), act("c"), ask("so"), ok()])
    append(project, session.pk, [act("d"), ok(), act("end")])
    run = started(project, session, 4)
    plan(run.pk)
    run.refresh_from_db()
    read = read_jobs(run, list(run.items.order_by("number")))
    materials = [job.source for job in read.jobs if isinstance(job.source, Material)]
    expected = History(run.session, run.head).episodes(1, 4)
    assert [step for material in materials for step in material.episodes] == expected
    assert [material.inputs for material in materials] == [("go", "and"), (), ("so",), ()]


def test_the_metadata_of_steps_is_not_loaded(project: Project, session: Session) -> None:
    lists: dict[str, list[list[int]]] = {"values": [[]] * 50_000}
    for _ in range(8):
        append(project, session.pk, [act("ls")._replace(metadata=lists), ok()._replace(metadata=lists)])
    append(project, session.pk, [act("end")])
    run = started(project, session, 8)
    plan(run.pk)
    run.refresh_from_db()
    items = list(run.items.order_by("number"))
    tracemalloc.start()
    read = read_jobs(run, items)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(read.jobs) == 8
    assert peak < 4_000_000, "the lists of one of these entries take as much"


def test_a_digest_of_summaries_that_are_too_long_together_fails_unread(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(project, session.pk, [draft for _ in range(4) for draft in (act("ls"), ok())])
    for step in range(1, 4):
        add_summary(project, session.pk, (step, step), SummaryText(f"long {step} " * 2_000))
    session.refresh_from_db()
    session.settings = {"max_summary_length": 100}
    session.save()
    run = started(project, session, 4, first=4)
    monkeypatch.setattr(items_module, "MAX_BYTES", 20_000)
    process_run(run.pk)
    run.refresh_from_db()
    digest = run.items.get(level__gte=3)
    assert (run.state, digest.state, digest.error) == ("partly_failed", "failed", items_module.TOO_LONG)


def test_a_digest_combines_only_as_many_summaries_as_it_may_read(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(project, session.pk, [draft for _ in range(7) for draft in (act("ls"), ok())])
    for step in range(1, 7):
        add_summary(project, session.pk, (step, step), SummaryText(f"long {step} " * 1_000))
    session.refresh_from_db()
    session.settings = {"max_summary_length": 100}
    session.save()
    run = started(project, session, 7, first=7)
    for module in (items_module, store):
        monkeypatch.setattr(module, "MAX_BYTES", 20_000)
    process_run(run.pk)
    run.refresh_from_db()
    assert run.state == "succeeded"
    digests = run.items.filter(level__gte=3).order_by("number")
    assert [len(item.parts) for item in digests][:2] == [2, 3], "with the digest of the first two"


def test_a_digest_reads_the_beginning_and_the_end_of_its_longest_summaries(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(project, session.pk, [draft for _ in range(4) for draft in (act("ls"), ok())])
    for step, text in enumerate(("short", "first é" + "long " * 2_000 + "last", "x" * 9_000), start=1):
        add_summary(project, session.pk, (step, step), SummaryText(text))
    session.refresh_from_db()
    session.settings = {"max_summary_length": 100}
    session.save()
    run = started(project, session, 4, first=4)
    monkeypatch.setattr(items_module, "MAX_DIGEST_CHARACTERS", 3_000)
    process_run(run.pk)
    run.refresh_from_db()
    assert run.state == "succeeded"
    texts = read_parts(run.items.filter(level__gte=3).earliest("number")).material
    assert isinstance(texts, list)
    assert sum(map(len, texts)) <= 3_000 + len(texts) * len("Step 1: ")
    assert texts[0] == "Step 1: short"
    assert texts[1].startswith("Step 2: first é")
    assert texts[1].endswith("last")
