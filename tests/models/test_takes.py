"""Takes are the parts that rewinds cut off and that are not restored."""

from contextlib import suppress
from random import Random
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from historyapp.core.errors import Conflict
from historyapp.models import Entry, Episode, Project, Session
from historyapp.models.history import History
from historyapp.models.step_filters import StepFilter, StepSearch
from historyapp.models.takes import Take, newest_rewind, rewinds, takes, takes_up_to
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind, undo_rewind
from historyapp.services.sessions import create_session
from tests.examples import thorough
from tests.services.drafts import act, failed, ok


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="p")


@pytest.fixture
def session(project: Project) -> Session:
    """Positions 1 to 10 hold steps 1 to 5."""
    session = create_session(project)
    add_steps(session, 5)
    return session


def add_steps(session: Session, steps: int) -> None:
    if steps:
        append(session.project, session.pk, [act(), ok()] * steps)


def back(session: Session, step: int) -> int:
    return rewind(session.project, session.pk, Target(to_step=step)).position


def takes_of(session: Session, as_of: int | None = None) -> list[tuple[int, int, int]]:
    """``(rewind's position, step it follows, last step)`` of each take."""
    session.refresh_from_db()
    return [
        (take.rewind.position, take.after_step, take.last_step) for take in takes(History(session, as_of))
    ]


def only_take(session: Session) -> Take:
    session.refresh_from_db()
    (take,) = takes(History(session))
    return take


def test_a_session_that_was_never_rewound_has_no_takes(session: Session) -> None:
    assert takes_of(session) == []


def test_a_rewind_makes_a_take(session: Session) -> None:
    assert back(session, 2) == 11
    assert takes_of(session) == [(11, 2, 5)]
    take = only_take(session)
    assert (take.steps, len(take.hidden), take.as_of) == (3, 6, 10)


def test_a_take_is_wholly_live_as_of_its_position(session: Session) -> None:
    back(session, 2)
    then = History(session, only_take(session).as_of)
    assert then.steps == 5
    assert takes(then) == []


def test_everything_can_be_a_take(session: Session) -> None:
    back(session, 0)
    assert takes_of(session) == [(11, 0, 5)]


def test_results_alone_can_be_a_take(project: Project, session: Session) -> None:
    rewind(project, session.pk, Target(to_position=9))
    assert takes_of(session) == [(11, 5, 5)]
    assert only_take(session).steps == 0
    assert len(only_take(session).hidden) == 1


def test_an_undone_rewind_leaves_no_take(project: Project, session: Session) -> None:
    undo_rewind(project, session.pk, back(session, 2))
    assert takes_of(session) == []


def test_undoing_makes_a_take_of_later_entries(project: Project, session: Session) -> None:
    position = back(session, 2)
    add_steps(session, 1)
    undo_rewind(project, session.pk, position)
    assert takes_of(session) == [(14, 2, 3)]


def test_a_part_cut_off_twice_is_one_take(project: Project, session: Session) -> None:
    undo_rewind(project, session.pk, back(session, 2))
    back(session, 3)
    assert takes_of(session) == [(13, 3, 5)]


def test_a_restored_beginning_of_a_take_leaves_its_end(project: Project, session: Session) -> None:
    back(session, 1)
    rewind(project, session.pk, Target(to_position=6))
    assert takes_of(session) == [(11, 3, 5)]


def test_a_take_of_a_take_belongs_to_the_outer_one(session: Session) -> None:
    inner = back(session, 4)
    add_steps(session, 1)
    outer = back(session, 2)
    assert takes_of(session) == [(outer, 2, 5)]
    assert takes_of(session, as_of=only_take(session).as_of) == [(inner, 4, 5)]


def test_adjacent_takes_are_in_the_order_in_which_they_were_cut_off(session: Session) -> None:
    first = back(session, 2)
    add_steps(session, 2)
    second = back(session, 2)
    assert takes_of(session) == [(first, 2, 5), (second, 2, 4)]


def test_a_fork_has_its_own_takes_only(project: Project, session: Session) -> None:
    back(session, 3)
    child = fork(project, session.pk)
    assert takes_of(child) == []
    add_steps(child, 1)
    back(child, 2)
    take = only_take(child)
    assert (take.after_step, take.last_step) == (2, 4)
    assert take.hidden.sessions == (str(session.pk), str(child.pk))


def test_a_fork_rewound_at_once_hides_shared_entries(project: Project, session: Session) -> None:
    child = fork(project, session.pk, at_step=4)
    assert back(child, 1) == 9
    assert takes_of(child) == [(9, 1, 4)]


def test_many_takes_cost_two_queries(
    session: Session, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(6):
        back(session, 2)
        add_steps(session, 1)
    session.refresh_from_db()
    history = History(session)
    with django_assert_num_queries(2):
        assert len(takes(history)) == 6


def test_takes_are_read_without_instances_of_entries(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """50 of them took as long as the rest of a page's queries."""
    back(session, 2)
    session.refresh_from_db()
    monkeypatch.setattr(Entry, "from_db", classmethod(lambda *_: pytest.fail("an entry was read")))
    (take,) = takes(History(session))
    assert (take.rewind.body["to_position"], take.rewind.created_at.tzinfo is None) == (4, False)


@pytest.mark.parametrize("seed", [0, *map(thorough, range(1, 6))])
def test_no_take_is_missed_before_a_step(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Rewinds by a few steps, into takes and far back, and undone ones, in a session and in a fork of it."""
    monkeypatch.setattr("historyapp.models.takes.NEWEST", 3)
    chance = Random(seed)
    add_steps(session, 6)
    for one in (session, fork(project, session.pk)):
        for moves in range(14):
            one.refresh_from_db()
            if chance.random() < 0.3 and one.rewinds().exists():
                with suppress(Conflict):
                    undo_rewind(project, one.pk, one.rewinds().latest("position").position)
            else:
                far = chance.random() < 0.3
                positions = range(1 if far else max(1, one.head - 7), one.head + 1)
                rewind(project, one.pk, Target(to_position=chance.choice(positions)))
            add_steps(one, chance.randint(0, 3))
            if moves % 3 == 1:
                none_is_missed(one)


def none_is_missed(session: Session) -> None:
    session.refresh_from_db()
    history = History(session)
    all_takes = takes(history)
    for step in range(history.steps + 1):
        before = [take for take in all_takes if take.after_step <= step]
        assert [take for take in takes_up_to(history, step) if take.after_step <= step] == before


def test_steps_before_all_takes_are_listed_without_reading_these(
    session: Session, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    monkeypatch.setattr("historyapp.models.takes.NEWEST", 3)
    for _ in range(4):
        add_steps(session, 1)
        back(session, 5)
    session.refresh_from_db()
    history = History(session)
    history.rows(1, 5)
    with django_assert_num_queries(1):
        assert takes_up_to(history, 4) == []
    assert len(takes_up_to(history, 5)) == len(takes(history)) == 3


def test_rows_and_failures_after_a_step_with_many_takes_are_read_without_these(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So few steps of many have takes that an index of numbers or failures is read first."""
    monkeypatch.setattr("historyapp.models.step_filters._PAGES", (20, 100))
    for _ in range(40):
        append(project, session.pk, [act(), failed()])
        back(session, 5)
    add_steps(session, 60)
    append(project, session.pk, [act(), failed(), act(), ok()])
    session.refresh_from_db()
    history = History(session)
    read: list[str] = []

    def counted(name: str, function: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            read.append(name)
            return function(*arguments, **named)

        return call

    from_db: Any = Episode.from_db
    monkeypatch.setattr(Episode, "from_db", counted("row", from_db))
    monkeypatch.setattr(StepSearch, "_page", counted("page", StepSearch._page))
    assert [row.number for row in history.rows(1, 67)] == [*range(1, 68)]
    assert read.count("row") == 67
    read.clear()
    for within in (range(1, 68), range(67, 0, -1)):
        search = StepSearch(history, StepFilter(status="error"), within)
        assert not search._uses_spans()
        assert [row.number for row in search.find(50).rows] == [66]
    assert read.count("row") == 2
    assert read.count("page") == 2  # one for each direction: then the spans are read


def test_the_newest_rewinds_have_their_cut_entries(session: Session) -> None:
    for _ in range(6):
        back(session, 2)
        add_steps(session, 1)
    session.refresh_from_db()
    newest = rewinds(session, limit=3)
    assert [rewind.position for rewind, _, _ in newest] == [20, 23, 26]
    assert all(before == session.lineage(rewind.position - 1) for rewind, before, _ in newest)
    assert all(left == session.lineage(rewind.position) for rewind, _, left in newest)


def test_the_newest_rewind_is_returned_only_while_no_entry_follows_it(session: Session) -> None:
    assert newest_rewind(session) is None
    position = back(session, 2)
    session.refresh_from_db()
    rewound = newest_rewind(session)
    assert rewound is not None
    assert rewound.position == position
    add_steps(session, 1)
    session.refresh_from_db()
    assert newest_rewind(session) is None


def test_a_new_session_and_a_new_fork_were_not_rewound(project: Project, session: Session) -> None:
    assert newest_rewind(create_session(project)) is None
    assert newest_rewind(fork(project, session.pk)) is None


def test_rewinds_with_too_many_spans_are_left_out_except_the_newest(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):  # each leaves a span of two entries
        add_steps(session, 1)
        rewind(session.project, session.pk, Target(to_position=Session.objects.get(pk=session.pk).head))
    older = back(session, 6)
    add_steps(session, 1)
    newest = back(session, 6)
    for most, shown in ((4, [older, newest]), (3, [newest]), (0, [newest])):
        monkeypatch.setattr("historyapp.models.takes.MAX_SPANS", most)
        assert [position for position, *_ in takes_of(session)] == shown
