"""How a run finds the steps that it has to summarise, page by page."""

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import OperationalError
from django.utils import timezone

from historyapp.compression_workers import RunScheduler
from historyapp.models import CompressionItem, CompressionRun, Project, Session, Summary
from historyapp.models.database_clock import claim_now
from historyapp.models.history import History
from historyapp.services.compression import already_made
from historyapp.services.compression import items as items_module
from historyapp.services.compression.claims import claim
from historyapp.services.compression.items import plan
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import cancel_run, retry_run, start_run, unclaimed_runs
from historyapp.services.rewinds import Target, rewind
from tests.llm.loopback import Loopback
from tests.services.compression.conftest import Record

pytestmark = pytest.mark.django_db(transaction=True)

EXTRACT = "simple_extract"


def summarise(session: Session, first: int, last: int, strategy: str = EXTRACT) -> Summary:
    """A summary of a range of steps, as an import can add it."""
    history = History(session)
    begin, end = history.row(first), history.row(last)
    return Summary.objects.create(
        session=session,
        made_in=session,
        made_at=session.head,
        first_position=begin.first_position,
        last_position=end.last_position,
        first_step=first,
        last_step=last,
        level=2,
        strategy=strategy,
    )


@pytest.mark.parametrize("is_retried", [False, True])
def test_no_step_is_paid_again_because_its_summary_has_more_steps_than_a_batch(
    project: Project, record: Record, loopback: Loopback, is_retried: bool
) -> None:
    """The batch size may have been larger when the summary was made. Others may end before it."""
    session = record(520)
    request = RunRequest("ai_summary", model="gpt-5-mini", from_step=1, to_step=8)
    run = start_run(project, session.pk, request).run
    if is_retried:
        plan(run.pk)
    for step in range(2, 500, 50):
        summarise(session, step, step)
    summarise(session, 1, 520, "ai_summary")
    plan(run.pk)
    owner = uuid4()
    items = claim(run.pk, owner, 10)
    assert len(items) == (2 if is_retried else 0)
    assert already_made.leave_out_needless(run, owner, items).items == []


def test_the_work_for_a_page_does_not_grow_with_the_length_of_the_summaries() -> None:
    """A set of all steps that these summaries cover would have two billion numbers."""
    ranges = [(1, 2_000_000_000 - number) for number in range(1000)]
    assert already_made._covered(ranges, 501, 504) == {501, 502, 503, 504}


@pytest.mark.parametrize(
    ("ranges", "covered"),
    [
        ([], set[int]()),
        ([(1, 4), (15, 20)], set[int]()),
        ([(1, 5), (14, 20)], {5, 14}),
        ([(6, 7), (6, 6), (9, 9), (8, 8)], {6, 7, 8, 9}),
        ([(1, 20), (7, 8)], set(range(5, 15))),
    ],
)
def test_steps_of_a_page_are_covered_by_the_parts_of_ranges_in_it(
    ranges: list[tuple[int, int]], covered: set[int]
) -> None:
    assert already_made._covered(ranges, 5, 14) == covered


def test_planning_reads_one_range_for_all_summaries_with_the_same_end(
    project: Project, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, read = record(12), list[int]()
    for first in range(2, 9):
        summarise(session, first, 9)
        summarise(session, first, 9)
    summarise(session, 11, 11)
    covered = already_made._covered

    def count(ranges: list[tuple[int, int]], first: int, last: int) -> set[int]:
        read.append(len(ranges))
        return covered(ranges, first, last)

    monkeypatch.setattr(already_made, "_covered", count)
    run = start_run(project, session.pk, RunRequest(EXTRACT, from_step=1, to_step=12)).run
    assert plan(run.pk)
    assert read == [2]
    assert list(run.items.order_by("number").values_list("first_step", flat=True)) == [1, 10, 12]


def test_summaries_of_a_take_do_not_cover_the_steps_that_replaced_it(
    project: Project, record: Record
) -> None:
    session = record(8)
    summarise(session, 2, 7)
    rewind(project, session.pk, Target(to_step=4))
    session.refresh_from_db()
    summarise(session, 3, 3)
    run = start_run(project, session.pk, RunRequest(EXTRACT, from_step=1, to_step=4)).run
    plan(run.pk)
    assert list(run.items.order_by("number").values_list("first_step", flat=True)) == [1, 2, 4]


def _count_pages(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[int], object] = bool) -> list[int]:
    """The steps after which pages begin, once they are read. ``meanwhile`` is called with each of them."""
    monkeypatch.setattr(items_module, "PAGE_SIZE", 5)
    begins, next_items = list[int](), items_module._next_items

    def count(run: CompressionRun, after: int, number: int) -> tuple[list[CompressionItem], int]:
        begins.append(after)
        meanwhile(after)
        return next_items(run, after, number)

    monkeypatch.setattr(items_module, "_next_items", count)
    return begins


def test_planning_stops_before_a_page_and_continues_there(
    project: Project, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if no step of the planned pages needs a summary. Otherwise a long run would never be planned."""
    session = record(27)
    for first in (1, 6, 11):
        summarise(session, first, first + 4)
    run = start_run(project, session.pk, RunRequest(EXTRACT, from_step=1, to_step=27)).run
    begins, stops = _count_pages(monkeypatch), iter([False, False, True])
    assert not plan(run.pk, lambda: next(stops))
    assert not run.items.exists()
    assert unclaimed_runs() == [run.pk], "another worker may continue at once"
    assert plan(run.pk)
    assert begins == [0, 5, 10, 15, 20, 25]
    assert list(run.items.order_by("number").values_list("first_step", flat=True)) == list(range(16, 28))


def test_only_one_worker_plans_the_further_pages_of_a_run(
    project: Project, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_run(project, record(12).pk, RunRequest(EXTRACT, from_step=1, to_step=12)).run
    scheduler, others, found = RunScheduler(), list[bool](), list[object]()

    def other_worker(after: int) -> None:
        if after == 5 and not others:
            others.append(plan(run.pk))
            found.extend((list(scheduler.candidates()), unclaimed_runs()))

    begins = _count_pages(monkeypatch, other_worker)
    assert plan(run.pk)
    assert (others, found, begins) == ([False], [[], []], [0, 5, 10])
    assert list(scheduler.candidates()) == [run.pk]


def test_another_worker_plans_the_rest_if_the_first_one_has_died(
    project: Project, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_run(project, record(12).pk, RunRequest(EXTRACT, from_step=1, to_step=12)).run

    def die(after: int) -> None:
        if after == 5 and len(begins) == 2:
            raise KeyboardInterrupt

    begins = _count_pages(monkeypatch, die)
    with monkeypatch.context() as patch:
        patch.setattr(items_module._Planner, "release", lambda planner: None)
        with pytest.raises(KeyboardInterrupt):
            plan(run.pk)
    assert not plan(run.pk)
    CompressionRun.objects.update(planning_until=claim_now() - timedelta(seconds=1))
    assert plan(run.pk)
    assert begins == [0, 5, 5, 10]
    assert run.items.count() == 12


def test_a_worker_that_stood_still_leaves_the_planning_to_the_other(
    project: Project, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_run(project, record(12).pk, RunRequest(EXTRACT, from_step=1, to_step=12)).run
    others, stops = list[bool](), iter([False, True])

    def other_worker(after: int) -> None:
        if after == 5 and not others:
            CompressionRun.objects.update(planning_until=claim_now() - timedelta(seconds=1))
            others.append(True)
            plan(run.pk, lambda: next(stops))
            CompressionRun.objects.update(planning_until=claim_now() + timedelta(seconds=60))

    begins = _count_pages(monkeypatch, other_worker)
    assert not plan(run.pk)
    assert begins == [0, 5, 5]
    assert (run.items.count(), unclaimed_runs()) == (10, [])


def test_planning_ends_with_the_page_in_which_the_run_is_cancelled(
    project: Project, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_run(project, record(12).pk, RunRequest(EXTRACT, from_step=1, to_step=12)).run
    begins = _count_pages(monkeypatch, lambda after: cancel_run(run) if after == 5 else None)
    assert not plan(run.pk)
    assert (begins, run.items.count()) == ([0, 5], 5)


def test_a_run_that_was_cancelled_while_it_was_planned_can_be_planned_at_once_after_a_retry(
    project: Project, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_run(project, record(12).pk, RunRequest(EXTRACT, from_step=1, to_step=12)).run
    begins = _count_pages(monkeypatch, lambda after: cancel_run(run) if len(begins) == 2 else None)
    assert not plan(run.pk)
    retry_run(run)
    assert unclaimed_runs() == [run.pk]
    assert plan(run.pk)
    assert (begins, run.items.count()) == ([0, 5, 5, 10], 12)


def test_a_worker_that_stops_does_not_release_the_planning_that_another_one_has_claimed(
    project: Project, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_run(project, record(12).pk, RunRequest(EXTRACT, from_step=1, to_step=12)).run
    begins, until = _count_pages(monkeypatch), timezone.now() + timedelta(seconds=30)

    def should_stop() -> bool:
        if begins:
            CompressionRun.objects.update(planning_until=until)  # another worker's claim
        return bool(begins)

    assert not plan(run.pk, should_stop)
    run.refresh_from_db()
    assert (begins, run.planning_until) == ([0], until)


def test_a_worker_that_loses_its_connection_releases_the_planning(
    project: Project, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_run(project, record(12).pk, RunRequest(EXTRACT, from_step=1, to_step=12)).run

    def lose_connection(after: int) -> None:
        if after:
            raise OperationalError("terminating connection due to administrator command")

    begins = _count_pages(monkeypatch, lose_connection)
    with pytest.raises(OperationalError):
        plan(run.pk)
    run.refresh_from_db()
    assert (begins, run.planning_until) == ([0, 5], None)
