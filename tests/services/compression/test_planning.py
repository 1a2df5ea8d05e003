"""How a run finds the steps that it has to summarise."""

import pytest

from historyapp.models import Project, Session, Summary
from historyapp.models.history import History
from historyapp.services.compression import planning
from historyapp.services.compression.planning import plan
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import start_run
from historyapp.services.rewinds import Target, rewind
from tests.services.compression.conftest import Record

pytestmark = pytest.mark.django_db(transaction=True)

EXTRACT = "simple_extract"


def summarise(session: Session, first: int, last: int) -> Summary:
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
        strategy=EXTRACT,
    )


def test_the_work_for_a_page_does_not_grow_with_the_length_of_the_summaries() -> None:
    """A set of all steps that these summaries cover would have two billion numbers."""
    ranges = [(1, 2_000_000_000 - number) for number in range(1000)]
    assert planning._covered(ranges, 501, 504) == {501, 502, 503, 504}


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
    assert planning._covered(ranges, 5, 14) == covered


def test_planning_reads_one_range_for_all_summaries_with_the_same_end(
    project: Project, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, read = record(12), list[int]()
    for first in range(2, 9):
        summarise(session, first, 9)
        summarise(session, first, 9)
    summarise(session, 11, 11)
    covered = planning._covered

    def count(ranges: list[tuple[int, int]], first: int, last: int) -> set[int]:
        read.append(len(ranges))
        return covered(ranges, first, last)

    monkeypatch.setattr(planning, "_covered", count)
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
