"""When a session is compressed automatically. An append only compares two numbers."""

from collections.abc import Sequence

import pytest

from historyapp.models import CompressionItem, CompressionRun, Project, Session, Summary
from historyapp.services.append import append
from historyapp.services.compression import items as items_module
from historyapp.services.compression import run as run_module
from historyapp.services.compression.items import ReadItems, plan, read_jobs, read_parts
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import compress_if_due, due_sessions, retry_run
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import change_session, create_session
from historyapp.services.summaries import SummaryText, add_summary
from tests.services.compression.conftest import Record
from tests.services.drafts import act, ok

pytestmark = pytest.mark.django_db(transaction=True)


def step(project: Project, session: Session, times: int = 1, outputs: str = "fine") -> None:
    drafts = [draft for _ in range(times) for draft in (act("read", path="a.py"), ok(outputs=outputs))]
    append(project, session.pk, drafts)


def carry_out(session: Session) -> CompressionRun | None:
    run = compress_if_due(session.pk)
    if run is not None:
        process_run(run.pk)
        run.refresh_from_db()
    return run


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def test_a_session_is_due_when_a_batch_of_older_steps_has_accumulated(project: Project) -> None:
    session = create_session(project)
    step(project, session, 7)
    assert due_sessions() == []
    append(project, session.pk, [act("read", path="a.py")])
    assert due_sessions() == [], "a step in flight is not finished"
    append(project, session.pk, [ok()])
    assert due_sessions() == [session.pk]


def test_a_due_session_is_compressed_once(project: Project) -> None:
    session = create_session(project)
    step(project, session, 8)
    run = carry_out(session)
    assert run is not None
    assert (run.automatic, run.from_step, run.to_step, run.state) == (True, 1, 4, "succeeded")
    assert due_sessions() == []
    assert compress_if_due(session.pk) is None
    step(project, session, 4)
    again = carry_out(session)
    assert again is not None
    assert (again.from_step, again.to_step, Summary.objects.count()) == (5, 8, 8)


def test_steps_that_come_during_a_run_are_due_after_it(project: Project) -> None:
    session = create_session(project)
    step(project, session, 8)
    run = compress_if_due(session.pk)
    assert run is not None
    step(project, session, 4)
    assert compress_if_due(session.pk) is None
    process_run(run.pk)
    assert due_sessions() == [session.pk]


def test_a_session_without_automatic_compression_is_never_due(project: Project) -> None:
    session = create_session(project)
    change_session(project, session.pk, {"settings": {"compress_automatically": False}})
    step(project, session, 12)
    assert due_sessions() == []
    change_session(project, session.pk, {"settings": {"compress_automatically": True}})
    step(project, session)
    assert due_sessions() == [session.pk]


def test_batch_strategies_take_whole_batches(project: Project) -> None:
    session = create_session(project)
    settings = {"compression_strategy": "structured", "compress_automatically": False}
    change_session(project, session.pk, {"settings": settings})
    step(project, session, 13)
    change_session(project, session.pk, {"settings": {"compress_automatically": True}})
    step(project, session)
    run = carry_out(session)
    assert run is not None
    assert (run.from_step, run.to_step, run.total) == (1, 8, 2)


def test_a_sliding_window_keeps_its_own_number_of_steps(project: Project) -> None:
    session = create_session(project)
    change_session(project, session.pk, {"settings": {"policy": "sliding_window", "window_size": 6}})
    step(project, session, 9)
    assert due_sessions() == []
    step(project, session)
    assert due_sessions() == [session.pk]


def test_a_share_of_the_budget_makes_few_long_steps_due(project: Project) -> None:
    session = create_session(project)
    change_session(project, session.pk, {"settings": {"compression_share": 0.5, "max_tokens": 1000}})
    step(project, session, 4)
    assert carry_out(session) is None
    step(project, session, 2, outputs="a long result " * 400)
    assert carry_out(session) is None, "the long ones are among the newest"
    step(project, session, 3)
    run = carry_out(session)
    assert run is not None
    assert run.to_step == 5


def test_a_budget_beyond_64_bits_of_an_earlier_version_stops_no_run(project: Project) -> None:
    session = create_session(project)
    stored = {"max_tokens": 2**63 - 1024, "compression_share": 1.0, "compression_strategy": "simple_extract"}
    Session.objects.filter(pk=session.pk).update(settings=stored)
    step(project, session, 12, outputs="a long result " * 40)
    run = carry_out(session)
    assert run is not None
    assert run.state == "succeeded"
    session.refresh_from_db()
    assert session.compress_at_tokens is not None


def test_a_rewind_resets_the_thresholds(project: Project) -> None:
    session = create_session(project)
    step(project, session, 8)
    carry_out(session)
    rewind(project, session.pk, Target(to_step=2))
    step(project, session, 7)
    assert due_sessions() == []
    step(project, session)
    run = carry_out(session)
    assert run is not None
    assert (run.from_step, run.to_step, run.total) == (3, 6, 4)


def test_a_fork_continues_after_the_steps_that_its_parent_compressed(project: Project) -> None:
    session = create_session(project)
    step(project, session, 8)
    carry_out(session)
    child = fork(project, session.pk, at_step=8)
    step(project, child, 4)
    run = carry_out(child)
    assert run is not None
    assert (run.from_step, run.to_step, run.total) == (5, 8, 4)


def test_an_automatic_run_with_nothing_to_do_is_not_listed(project: Project) -> None:
    session = create_session(project)
    step(project, session, 7)
    child = fork(project, session.pk, at_step=7)
    step(project, session)
    assert carry_out(session) is not None
    step(project, child)
    run = compress_if_due(child.pk)
    assert run is not None
    process_run(run.pk)
    assert not child.compression_runs.newest_first().exists()
    run.refresh_from_db()
    assert run.state == "succeeded", "who has joined it can still look"
    assert due_sessions() == []
    process_run(run.pk)  # its message comes a second time


def test_an_imported_session_is_due_once_its_agent_continues(project: Project, record: Record) -> None:
    session = create_session(project)
    drafts = [draft for _ in range(20) for draft in (act("read", path="a.py"), ok())]
    append(project, session.pk, drafts, lenient=True)
    assert due_sessions() == []
    step(project, session)
    assert due_sessions() == [session.pk]


def test_failed_steps_are_retried_with_the_next_steps(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = create_session(project)
    step(project, session, 8)
    run = compress_if_due(session.pk)
    assert run is not None
    CompressionRun.objects.filter(pk=run.pk).update(model="openai:gpt-5-mini")  # its key is removed meanwhile
    process_run(run.pk)
    run.refresh_from_db()
    assert run.state == "failed"
    assert due_sessions() == []
    step(project, session, 4)
    again = carry_out(session)
    assert again is not None
    assert (again.from_step, again.to_step, again.state) == (1, 8, "succeeded")


def test_steps_that_are_too_long_are_not_read_again_until_a_person_asks(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items_module, "MAX_BYTES", 20_000)
    session = create_session(project)
    step(project, session, 1)
    step(project, session, 1, outputs="long " * 10_000)
    step(project, session, 6)
    first = carry_out(session)
    assert first is not None
    assert (first.state, first.done, first.failed) == ("partly_failed", 3, 1)
    assert items_module.TOO_LONG in first.note
    step(project, session, 4)
    second = carry_out(session)
    assert second is not None
    assert (second.from_step, second.to_step, second.state) == (5, 8, "succeeded")
    monkeypatch.setattr(items_module, "MAX_BYTES", 1 << 20)
    retry_run(first)
    process_run(first.pk)
    first.refresh_from_db()
    assert (first.state, first.done) == ("succeeded", 4)


def test_an_automatic_run_that_covers_such_steps_again_lists_them_without_reading_them(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = create_session(project)
    step(project, session, 8)
    first = compress_if_due(session.pk)
    assert first is not None
    plan(first.pk)
    failed = first.items.filter(number__in=(1, 2))
    failed.update(state="failed", error=items_module.TOO_LONG)
    first.items.filter(number=1).update(error="The provider did not respond.")
    CompressionRun.objects.filter(pk=first.pk).update(failed=2)
    process_run(first.pk)
    step(project, session, 4)
    second = compress_if_due(session.pk)
    assert second is not None
    assert (second.from_step, second.to_step) == (1, 8)
    claimed = list[int]()

    def read(run: CompressionRun, items: Sequence[CompressionItem], room: int | None) -> ReadItems:
        claimed.extend(item.first_step for item in items)
        return read_jobs(run, items, room)

    monkeypatch.setattr(run_module, "read_jobs", read)
    process_run(second.pk)
    second.refresh_from_db()
    assert (second.state, second.total, second.done, second.failed) == ("partly_failed", 6, 5, 1)
    assert sorted(set(claimed)) == [1, 5, 6, 7, 8]
    assert [item.error for item in second.items.filter(state="failed")] == [items_module.TOO_LONG]
    session.refresh_from_db()
    assert session.compressed_to == 8


def test_a_digest_that_is_too_long_is_not_read_again(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items_module, "MAX_BYTES", 20_000)
    session = create_session(project)
    change_session(project, session.pk, {"settings": {"max_summary_length": 5_000}})
    step(project, session, 8)
    carry_out(session)
    step(project, session, 4)
    for number in (1, 2):
        add_summary(project, session.pk, (number, number), SummaryText(f"long {number} " * 2_000))
    read = list[str]()

    def parts(item: CompressionItem) -> object:
        read.append(item.error)
        return read_parts(item)

    monkeypatch.setattr(items_module, "read_parts", parts)
    for _ in range(2):
        run = carry_out(session)
        assert run is not None
        digest = run.items.get(level__gte=3)
        assert (run.state, digest.state) == ("partly_failed", "failed")
        assert digest.error.startswith(items_module.TOO_LONG)
        step(project, session, 4)
    assert len(read) == 1
