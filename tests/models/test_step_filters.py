"""Finding steps by status, tool and time: the results of filtering the whole list, with bounded reads."""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from historyapp.core.entries import EntryDraft, ModelOutput, ToolCall, UseTool
from historyapp.core.errors import Conflict
from historyapp.models import Episode, Project, Session, step_filters
from historyapp.models.history import History
from historyapp.models.step_filters import (
    HAS_LIKELY_FAILURE,
    MAX_READ,
    STATUS_FILTERS,
    SearchCursor,
    StepFilter,
    StepSearch,
)
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind, undo_rewind
from historyapp.services.sessions import create_session
from tests.dashboard.long_sessions import long_session
from tests.examples import examples
from tests.plans import whole_indexes
from tests.services.drafts import act, answer, ask, failed, ok, tool_calls

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DRAFTS = [
    ask("go"), act("ls"), act("cat"), tool_calls("a", "b"), answer(), ok(), ok("a"), failed(), failed("b"),
    act("bash", command="make | tail"), ok(outputs="error: no rule"),
    EntryDraft(ModelOutput(tool_calls=(ToolCall(id="a", name="ls"), ToolCall(id="b", name="cat")))),
    EntryDraft(ModelOutput(use_tool=UseTool(name="x" * 150))),
]  # fmt: skip
recorded = st.lists(st.tuples(st.sampled_from(DRAFTS), st.integers(0, 5)), min_size=1, max_size=8)
moves = st.one_of(
    st.tuples(st.just("append"), recorded),
    st.tuples(st.just("append"), recorded),
    st.tuples(st.sampled_from(["rewind", "fork", "undo"]), st.floats(0, 1)),
)
times = st.none() | st.integers(0, 6).map(lambda minutes: NOW + timedelta(minutes=minutes))
filters = st.builds(
    StepFilter,
    status=st.none() | st.sampled_from(STATUS_FILTERS),
    tool=st.none() | st.sampled_from(["ls", "cat", "read", "x" * 150, "none", "\n", ""]),
    since=times,
    until=times,
    kind=st.sampled_from([None, None, "shell", "search"]),
    turn=st.sampled_from([None, None, 1, 2, 5]),
)


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="Alice's")


def carry_out(project: Project, sessions: list[Session], which: float, move: tuple[str, Any]) -> None:
    session = sessions[min(int(which * len(sessions)), len(sessions) - 1)]
    session.refresh_from_db()
    name, argument = move
    if name == "append":
        drafts = [draft._replace(created_at=NOW + timedelta(minutes=at)) for draft, at in argument]
        append(project, session.pk, drafts, lenient=True)
    elif name == "rewind":
        rewind(project, session.pk, Target(to_position=round(argument * session.head)))
    elif name == "fork":
        sessions.append(fork(project, session.pk, at_position=round(argument * session.head)))
    elif rewinds := list(session.rewinds().values_list("position", flat=True)):
        with suppress(Conflict):  # undone already
            undo_rewind(project, session.pk, rewinds[min(int(argument * len(rewinds)), len(rewinds) - 1)])


def searched(history: History, step_filter: StepFilter, within: range, limit: int) -> Iterator[Episode]:
    """All pages of a search."""
    mark: SearchCursor | None = None
    while True:
        rows, mark = StepSearch(history, step_filter, within).find(limit, mark)
        assert len(rows) <= limit
        yield from rows
        if mark is None:
            return


def values(rows: list[Episode]) -> list[Any]:
    return [(row.number, row.anchor, row.status, row.last_position, row.started_at) for row in rows]


@pytest.mark.django_db
@pytest.mark.parametrize(("window", "pages"), [(100_000, (200, 2000)), (3, (2, 3)), (1, (200, 2000))])
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.lists(st.tuples(st.floats(0, 1), moves), min_size=1, max_size=12),
    step_filter=filters,
    where=st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)),
    newest_first=st.booleans(),
    limit=st.integers(1, 4),
)
def test_a_filter_gives_the_steps_of_the_filtered_list(
    monkeypatch: pytest.MonkeyPatch,
    window: int,
    pages: tuple[int, int],
    script: list[Any],
    step_filter: StepFilter,
    where: tuple[float, float, float],
    newest_first: bool,
    limit: int,
) -> None:
    monkeypatch.setattr(step_filters, "WINDOW", window)
    monkeypatch.setattr(step_filters, "_PAGES", pages)
    monkeypatch.setattr(step_filters, "MAX_READ", 5 if window == 3 else MAX_READ)
    if window == 1:  # every search goes through spans, a few entries at a time
        monkeypatch.setattr("historyapp.core.lineage.BLOCK", 2)
        monkeypatch.setattr(StepSearch, "_uses_spans", lambda search: True)
        monkeypatch.setattr("historyapp.models.span_search._AT_ONCE", 2)
        monkeypatch.setattr("historyapp.models.entries._SHORT", 4)
        monkeypatch.setattr("historyapp.models.span_search.MAX_ENTRIES", 9)
    project = Project.objects.create(name="random")
    sessions = [create_session(project)]
    for which, move in script:
        carry_out(project, sessions, which, move)
    for session in sessions:
        session.refresh_from_db()
        for as_of in (None, round(where[0] * session.head)):
            history = History(session, as_of)
            first, last = sorted(round(part * history.steps) for part in where[1:])
            within = range(max(1, first), last + 1)
            within = within[::-1] if newest_first else within
            rows = {row.number: row for row in history.rows(1, history.steps)}
            expected = [rows[number] for number in within if step_filter.matches(rows[number])]
            assert values(list(searched(history, step_filter, within, limit))) == values(expected)


def test_a_search_without_hits_ends_at_once(project: Project) -> None:
    session = long_session(project, 5_000)
    for step_filter in (
        StepFilter(status="abandoned"),
        StepFilter(tool="no such tool"),
        StepFilter(since=datetime(2100, 1, 1, tzinfo=UTC)),
        StepFilter(until=datetime(2000, 1, 1, tzinfo=UTC)),
        StepFilter(status="error", tool="no such tool", until=datetime(2000, 1, 1, tzinfo=UTC)),
    ):
        with CaptureQueriesContext(connection) as queries:
            assert StepSearch(History(session), step_filter, range(1, 5_001)).find(50) == ([], None)
        assert len(queries) <= 3, step_filter


def test_one_search_reads_a_bounded_number_of_steps(project: Project) -> None:
    history = History(long_session(project, 30_000))
    search = StepSearch(
        history, StepFilter(status="interrupted_by_human", tool="read_file"), range(1, 30_001)
    )
    assert search.find(50) == ([], None)
    dense = StepSearch(history, StepFilter(status="success", tool="write_file"), range(1, 30_001))
    assert dense.find(50) == ([], None)
    Episode.objects.update(tool="\n", tool_names=["a", "b"])
    first = dense.find(50)
    assert first.rows == []
    assert first.more is not None
    assert MAX_READ <= first.more.number < 30_000
    assert dense.find(50, first.more) == ([], None)


INDEXES = [
    (StepFilter(status="error"), "episode_errors"),
    (StepFilter(status="answered"), "episode_answered"),
    (StepFilter(status="likely_failed"), "episode_likely_failures"),
    (StepFilter(status="abandoned"), "episode_abandoned"),
    (StepFilter(status="interrupted_by_human"), "episode_interrupted"),
    (StepFilter(tool="no such tool"), "episode_by_tool"),
    # Either index has the time; in a session that one window covers they cost PostgreSQL the same.
    (StepFilter(since=datetime(2100, 1, 1, tzinfo=UTC)), "episode_by_"),
]


def test_every_filter_uses_its_index(project: Project) -> None:
    session = long_session(project, 20_000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        if connection.vendor == "postgresql":  # reading the whole table is cheap where it is one session's
            cursor.execute("SET LOCAL enable_seqscan = off")
    names = whole_indexes()
    for step_filter, index in INDEXES:
        with CaptureQueriesContext(connection) as queries:
            StepSearch(History(session), step_filter, range(1, 20_001)).find(50)
        plans = [_plan(query["sql"]) for query in queries]
        used = {names.get(word, word) for plan in plans for word in re.findall(r"\w+", plan)}
        assert any(name.startswith(index) for name in used), (step_filter, plans)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite reads the rows of an IN once")
def test_a_search_by_two_indexes_reads_each_once_even_with_statistics_of_an_empty_table(
    project: Project,
) -> None:
    session = long_session(project, 100)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pg_class SET reltuples = 0, relpages = 0 WHERE relname LIKE 'historyapp_episode%'"
        )
    with CaptureQueriesContext(connection) as queries:
        StepSearch(History(session), StepFilter(tool="no such tool"), range(1, 101)).find(50)
    plans = [plan for query in queries if "part_1" in (plan := _plan(query["sql"]))]
    assert len(plans) == 1
    assert "InitPlan" in plans[0]
    assert "Nested Loop" not in plans[0]


def _plan(statement: str) -> str:
    """The query plan of a statement."""
    with connection.cursor() as cursor:
        explain = "EXPLAIN " if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN "
        cursor.execute(explain + statement)
        return str(cursor.fetchall())


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL gets the value within the statement")
def test_likely_failures_are_found_by_their_index_even_if_the_value_is_a_parameter(
    project: Project,
) -> None:
    rows = (
        Episode.objects.filter(session=create_session(project)).filter(HAS_LIKELY_FAILURE).order_by("number")
    )
    sql, parameters = rows.query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)
        assert "episode_likely_failures" in str(cursor.fetchall())


def test_the_migration_sets_the_tool_of_older_rows(project: Project) -> None:
    session = create_session(project)
    several = EntryDraft(ModelOutput(tool_calls=(ToolCall(id="a", name="ls"), ToolCall(id="b", name="cat"))))
    append(project, session.pk, [act("ls"), tool_calls("a", "b"), answer(), several])
    tools = list(Episode.objects.order_by("number").values_list("tool", flat=True))
    assert tools == ["ls", "read", "", "\n"]
    Episode.objects.update(tool="")
    migration = import_module("historyapp.migrations.0010_step_filters")
    migration.fill(None, SimpleNamespace(connection=connection))
    assert list(Episode.objects.order_by("number").values_list("tool", flat=True)) == tools
