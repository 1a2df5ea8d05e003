"""The queries and rows of a read do not grow with the rewinds, takes and forks of a session."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoDbBlocker
from uuid_utils.compat import uuid7

from historyapp.core.entries import SystemInstruction
from historyapp.models import Episode, Project, Session, Summary, ancestors
from historyapp.models.history import History
from historyapp.models.landmarks import failure, has_later_failure
from historyapp.models.samples import sample_totals
from historyapp.models.sessions import RARE_KINDS
from historyapp.models.step_filters import FAILED, StepFilter, StepSearch
from historyapp.models.step_positions import first_with
from historyapp.models.strips import read_strip
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind, undo_rewind
from historyapp.services.sessions import create_session
from historyapp.services.summaries import SummaryText, add_summary
from tests.dashboard.long_sessions import long_session
from tests.plans import statements
from tests.services.drafts import act, ask, draft, failed, ok


class SharedSessions(NamedTuple):
    project: Project
    rewound: Session
    """Of 90 rewinds, in blocks of four spans."""
    forked: Session
    """The fork at depth 80, in a chain of forks."""
    tried: Session
    """Its step 3 has 30 takes that failed."""


@pytest.fixture(scope="module")
def shared(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[SharedSessions]:
    """Created once for all tests, which only read it."""
    with django_db_blocker.unblock(), transaction.atomic():
        project = Project.objects.create(name="p")
        deep = forked(project, 80)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("historyapp.core.lineage.BLOCK", 4)
            long = rewound(project, 90)
        yield SharedSessions(project, long, deep, tried(project, 30))
        transaction.set_rollback(True)


@pytest.fixture
def project(shared: SharedSessions, db: None) -> Project:
    return shared.project


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("historyapp.core.lineage.BLOCK", 4)


@pytest.fixture
def rewound_often(shared: SharedSessions, small_blocks: None, db: None) -> Session:
    return shared.rewound


@pytest.fixture
def deep_fork(shared: SharedSessions, db: None) -> Session:
    return shared.forked


@pytest.fixture
def rows_read(monkeypatch: pytest.MonkeyPatch) -> list[type]:
    """Gets the model of each row that is read."""
    read: list[type] = []
    models: tuple[Any, ...] = (Episode, Summary)
    for model in models:
        from_db = model.from_db.__func__

        def counted(cls: type, *arguments: Any, from_db: Any = from_db) -> Any:
            read.append(cls)
            return from_db(cls, *arguments)

        monkeypatch.setattr(model, "from_db", classmethod(counted))
    return read


def queries(read: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as captured:
        read()
    return len(captured)


def history(session: Session, as_of: int | None = None) -> History:
    return History(Session.objects.get(pk=session.pk), as_of)


def tried(project: Project, takes: int) -> Session:
    """Step 3 is tried again and again, and fails each time but the last."""
    session = create_session(project)
    append(project, session.pk, [ask("go"), act("one"), ok(), act("two"), ok()])
    for _ in range(takes):
        append(project, session.pk, [act("three"), failed()])
        rewind(project, session.pk, Target(to_step=2))
    append(project, session.pk, [act("three"), ok(), act("four"), failed()])
    return session


def rewound(project: Project, rewinds: int) -> Session:
    """Each rewind leaves one more span of one step; every fourth step failed."""
    session = create_session(project)
    append(project, session.pk, [draft(SystemInstruction(text="be brief")), ask("go")])
    for number in range(rewinds):
        result = failed() if number % 4 == 3 else ok()
        append(project, session.pk, [act(f"kept{number}"), result, act("dropped"), ok()])
        rewind(project, session.pk, Target(episodes=1))
    return session


def forked(project: Project, depth: int) -> Session:
    """A fork of forks, each of one step; the first has what is rare."""
    session = create_session(project)
    append(project, session.pk, [draft(SystemInstruction(text="be brief")), ask("go"), act("step1"), ok()])
    add_summary(project, session.pk, (1, 1), SummaryText("listed"))
    for number in range(2, depth + 1):
        session = fork(project, session.pk)
        append(project, session.pk, [act(f"step{number}"), failed() if number % 4 == 3 else ok()])
    return session


def test_takes_with_the_same_numbers_are_not_read(
    shared: SharedSessions, project: Project, rows_read: list[type]
) -> None:
    costs = []
    for past in map(history, (shared.tried, tried(project, 40))):
        rows_read.clear()
        count = queries(lambda past=past: past.rows(3, 3))  # type: ignore[misc]
        assert [row.call_preview for row in past.rows(1, 4)] == ["one()", "two()", "three()", "four()"]
        assert [step.number for step in past.outline(2, 4)] == [2, 3, 4]
        assert [sample.status for sample in past.sample([1, 2, 3, 4])] == ["success"] * 3 + ["error"]
        assert failure(past, 0, True).step == 4
        costs.append((count, len(rows_read)))
    assert costs[0] == costs[1]
    assert costs[1][1] <= 12


@pytest.mark.parametrize("status", ["error", FAILED])
def test_a_search_for_errors_reads_no_failed_takes(
    shared: SharedSessions, project: Project, rows_read: list[type], status: str
) -> None:
    past = history(shared.tried)
    rows_read.clear()
    matching = StepSearch(past, StepFilter(status=status), range(1, 5)).find(50)
    assert ([row.number for row in matching.rows], matching.more) == ([4], None)
    assert len(rows_read) <= 6


def test_a_search_through_spans_finds_steps_by_position_if_few_failures_are_expected(
    shared: SharedSessions, project: Project
) -> None:
    past = history(shared.tried)
    long_session(project, 2000)
    Episode.objects.update(status="success")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE historyapp_episode")
    Episode.objects.filter(session=past.session).update(status="error")
    with statements() as issued:
        StepSearch(past, StepFilter(status="error"), range(1, 5)).find(50)
    (search,) = [one for one in issued if "anchor BETWEEN" in one.sql]
    assert [way.by for way in search.accesses if "anchor" not in way.by] == []


def test_a_search_in_a_fork_of_forks_takes_few_queries(deep_fork: Session) -> None:
    search = StepSearch(history(deep_fork), StepFilter(status="error"), range(80, 0, -1))
    assert queries(lambda: search.find(50)) <= 30
    assert [row.number for row in search.find(50).rows] == list(range(79, 0, -4))


def test_a_step_in_many_spans_is_found_with_few_queries(
    rewound_often: Session, rows_read: list[type]
) -> None:
    past = history(rewound_often)
    assert len(past.lineage.older) == 3
    rows_read.clear()
    assert queries(lambda: past.row(40)) <= 6  # its rows, each level of blocks, and the live row in full
    assert past.row(40).call_preview == "kept39()"
    assert [row.number for row in past.rows(30, 50)] == list(range(30, 51))
    assert len(rows_read) <= 2 * (23 + 8)
    assert [failure(past, after, True).step for after in (0, 4, 5, 39, 79)] == [4, 8, 8, 40, 80]
    assert failure(past, 88, True).step is None
    assert queries(lambda: failure(past, 41, True)) <= 8
    assert [has_later_failure(past, after) for after in (1, 87, 88)] == [True, True, False]
    assert queries(lambda: has_later_failure(past, 41)) <= 25


def test_rows_and_failures_take_few_queries_at_any_number_of_rewinds(
    rewound_often: Session, project: Project, rows_read: list[type]
) -> None:
    costs = []
    for amount, session in ((30, rewound(project, 30)), (90, rewound_often)):
        past = history(session)
        rows_read.clear()
        taken = [
            queries(lambda past=past: past.rows(10, 29)),  # type: ignore[misc]
            queries(lambda session=session: history(session).outline(10, 29)),  # type: ignore[misc]
        ]
        assert [row.call_preview for row in past.rows(10, 29)] == [f"kept{n}()" for n in range(9, 29)]
        past = history(session)
        search = StepSearch(past, StepFilter(status="error"), range(1, amount + 1))
        taken.append(queries(lambda search=search: search.find(5)))  # type: ignore[misc]
        assert [row.number for row in search.find(5).rows] == [4, 8, 12, 16, 20]
        costs.append((taken, len(rows_read)))
    few, many = costs
    assert len(past.lineage.older) == 3
    assert all(more <= less + 1 for less, more in zip(few[0], many[0], strict=True))  # a level more
    assert max(many[0]) <= 8
    assert few[1] == many[1] <= 20 + 12


def test_reads_of_a_fork_of_forks_take_few_queries(deep_fork: Session) -> None:
    child, past = deep_fork, history(deep_fork)
    assert len(past.lineage.older[0]) >= 2
    stored = Session.objects.values_list("fork_spans", flat=True).get(pk=child.pk)
    assert len(stored["spans"]) <= 16
    assert set(stored) == {"spans", "older"}

    def read_rare() -> None:
        assert past.instruction == "be brief"
        assert past.notebook is None
        assert next(iter(past.inputs_newest_first())).content == "go"
        assert [summary.text for summary in past.summaries_newest_first(10_000)] == ["listed"]
        assert [summary.text for summary in past.summaries()] == ["listed"]
        assert len(Summary.objects.page(past.session, past.lineage, 10)[0]) == 1
        assert len(Summary.objects.covering(past.session, past.lineage, (1, 10))) == 1

    assert queries(read_rare) <= 16
    # The rows with this number in 80 sessions, and the row.
    assert queries(lambda: past.row(20)) <= 2
    assert past.row(20).call_preview == "step20()"
    assert failure(past, 20, True).step == 23
    with CaptureQueriesContext(connection) as captured:
        revision = history(child).session.shared_revision
    assert ["RECURSIVE" in query["sql"] for query in captured] == [False, False]
    assert revision == revision_of_chain(child)


def revision_of_chain(session: Session) -> int:
    parent = session.forked_from
    own = Session.objects.get(pk=session.pk).revision
    return own + (revision_of_chain(parent) if parent else 0)


def test_a_search_for_summaries_loads_no_spans_if_there_are_too_many_to_query(deep_fork: Session) -> None:
    past = history(deep_fork)
    assert past.session.ancestors
    # The sessions with summaries, their summaries, and the text of the one that was found.
    assert queries(lambda: Summary.objects.page(past.session, past.lineage, 10)) == 4
    assert past.lineage.min_spans_from(1) == len(past.lineage.spans)
    assert past.lineage.min_spans_from(past.lineage.last) <= 1


def test_the_first_entry_with_a_total_is_found_in_any_lineage(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.core.lineage.BLOCK", 2)
    session = rewound(project, 12)
    child = fork(project, session.pk, at_step=9)
    append(project, child.pk, [act("own"), ok()])
    for one, steps in ((session, 12), (child, 10)):
        lineage = history(one).lineage
        outputs = [entry.position for entry in history(one).entries(kinds=["model_output"])]
        places = [first_with(lineage, "steps", number) for number in range(1, steps + 2)]
        assert [place and place[1] for place in places] == [*outputs, None]


def test_a_sample_of_a_long_lineage_loads_few_blocks_and_has_equal_distances(
    rewound_often: Session,
) -> None:
    past = history(rewound_often)
    loads: list[int] = []

    def read() -> None:
        for total in sample_totals(past.lineage, 90, 9):
            loads.append(total.steps)

    assert queries(read) <= 30
    assert loads == sorted(loads)
    assert all(10 <= later - earlier <= 16 for earlier, later in pairwise(loads))
    for steps, tokens, errors in sample_totals(past.lineage, 90, 9):
        assert past.row(steps).total_tokens <= tokens <= past.row(steps + 1).total_tokens
        assert errors == past.row(steps).total_errors


def test_charts_and_lists_of_a_fork_of_forks_read_few_unused_rows(
    deep_fork: Session, rows_read: list[type]
) -> None:
    past = history(deep_fork)
    assert queries(lambda: sample_totals(past.lineage, 80, 4)) <= 12
    rows_read.clear()
    assert [row.number for row in past.rows(1, 10)] == list(range(1, 11))
    assert len(rows_read) <= 2 * 14 + 8
    rows_read.clear()
    search = StepSearch(past, StepFilter(status="error"), range(1, 81))
    assert [row.number for row in search.find(50).rows] == list(range(3, 81, 4))
    assert len(rows_read) <= 2 * 20 + 4  # each fork has a row of the step that it continues


def test_the_spans_of_a_long_lineage_are_read_in_groups(rewound_often: Session) -> None:
    past = history(rewound_often, as_of=2 + 80 * 5)  # after 80 rewinds
    assert queries(lambda: past.lineage.spans) <= 8  # of 20 blocks
    assert len(past.lineage.spans) == 80


def test_the_newest_entries_of_a_long_lineage_are_read_without_older_spans(rewound_often: Session) -> None:
    session = Session.objects.get(pk=rewound_often.pk)
    past = History(session, as_of=session.head - 1)
    with CaptureQueriesContext(connection) as captured:
        newest = list(past.entries(newest_first=True, limit=3))
    assert [entry.position for entry in newest] == past_positions(past)[:-4:-1]
    assert [query["sql"].count("BETWEEN") for query in captured] == [1]
    assert len(list(past.entries(limit=50))) == 50


def past_positions(past: History) -> list[int]:
    return [position for span in past.lineage.spans for position in range(span.first, span.last + 1)]


def test_a_rewind_and_a_fork_read_no_steps_for_bars_of_the_same_width(
    project: Project, rewound_often: Session
) -> None:
    session = history(rewound_often).session

    def reads_for_strip(change: Callable[[], object]) -> int:
        with CaptureQueriesContext(connection) as captured:
            change()
        return sum("number IN" in query["sql"] for query in captured)

    assert reads_for_strip(lambda: fork(project, session.pk)) == 0
    assert reads_for_strip(lambda: rewind(project, session.pk, Target(episodes=2))) == 0
    assert reads_for_strip(lambda: rewind(project, session.pk, Target(to_step=20))) == 1  # narrower bars
    cut, undone = history(session).session, history(session).session.head
    assert reads_for_strip(lambda: undo_rewind(project, session.pk, undone)) == 1  # a part that was not live
    for changed in (cut, history(session).session, Session.objects.filter(forked_from=session).get()):
        assert changed.strip == read_strip(changed.lineage(), changed.steps) != ""


def test_a_search_of_spans_reads_only_shown_rows_in_full(
    rewound_often: Session, rows_read: list[type]
) -> None:
    past = history(rewound_often)
    rows_read.clear()
    for within in (range(1, 90), range(89, 0, -1)):
        matching = StepSearch(past, StepFilter(status="error"), within).find(50)
        assert [row.number for row in matching.rows] == [n for n in within if n % 4 == 0]
    assert len(rows_read) == 2 * 22  # though a rewind has made another row of each of these steps


def test_a_new_fork_reads_only_its_parent_again(
    project: Project, deep_fork: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = history(deep_fork).session.ancestors
    assert known[0].has == frozenset()
    append(project, deep_fork.pk, [draft(SystemInstruction(text="since then"))])
    monkeypatch.setattr(ancestors, "_cache", {deep_fork.pk: known})
    read: list[int] = []
    read_ancestors = ancestors._read_ancestors

    def counted(*arguments: Any, **options: Any) -> Any:
        chain = read_ancestors(*arguments, **options)
        read.append(len(chain))
        return chain

    monkeypatch.setattr(ancestors, "_read_ancestors", counted)
    child = fork(project, deep_fork.pk)
    assert ancestors.ancestors(uuid7(), RARE_KINDS, deep_fork.pk) == ()  # is not stored
    chain = history(child).session.ancestors
    assert (read, len(chain)) == ([0, 2], 81)
    assert chain[1].has == {"system_instruction"}
    assert chain[2:] == known[1:]
    ancestors._cache.clear()
    assert history(child).session.ancestors == chain
    assert read == [0, 2, 81]


def test_rare_entries_of_ancestors_are_cached_and_new_summaries_are_found(
    project: Project, deep_fork: Session
) -> None:
    child = deep_fork
    assert history(child).instruction == "be brief"
    assert queries(lambda: history(child).instruction) <= 4
    assert child.forked_from_id is not None
    append(project, child.forked_from_id, [draft(SystemInstruction(text="of the parent alone"))])
    assert history(child).instruction == "be brief"
    assert [one.text for one in history(child).summaries_newest_first(10_000)] == ["listed"]
    add_summary(project, child.pk, (20, 20), SummaryText("found later"))
    assert [one.text for one in history(child).summaries_newest_first(10_000)] == ["found later", "listed"]
    append(project, child.pk, [draft(SystemInstruction(text="be long"))])
    assert history(child).instruction == "be long"
