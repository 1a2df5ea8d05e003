"""Excerpts of steps: computed, or stored with the snapshot of a context, with the same result."""

from contextlib import nullcontext
from types import SimpleNamespace
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core import process_memory
from historyapp.core.errors import Invalid
from historyapp.core.excerpts import Excerpt
from historyapp.core.policies.base import StepOutline
from historyapp.models import Episode as Row
from historyapp.models import Project, Session, outlines
from historyapp.models.history import History
from historyapp.models.large_reads import RequestRead, request_read
from historyapp.models.long_rows import bytes_left
from historyapp.services import snapshots
from historyapp.services.append import append
from historyapp.services.contexts import RequestedContext
from historyapp.services.projections import rebuild
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from historyapp.services.snapshots import record_snapshot, serve_context
from historyapp.services.summaries import SummaryText, add_summary
from tests.services.drafts import act, ask, failed, ok, tool_calls

BUDGETED = RequestedContext(policy="budgeted", max_tokens=8192)


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="Alice's")


@pytest.fixture
def session(project: Project) -> Session:
    return create_session(project)


def outline(session: Session, as_of: int | None = None) -> list[StepOutline]:
    history = History(Session.objects.get(pk=session.pk), as_of)
    return history.outline(1, history.steps)


def record_context(session: Session) -> None:
    record_snapshot(serve_context(Session.objects.get(pk=session.pk), BUDGETED))


def stored_anchors(session: Session) -> list[int]:
    """The anchors of the session's own rows with an excerpt."""
    rows = Row.objects.filter(session=session, excerpt__isnull=False)
    return list(rows.order_by("anchor").values_list("anchor", flat=True))


def test_an_outlined_step_has_its_call_and_the_lines_of_its_results(
    project: Project, session: Session
) -> None:
    append(project, session.pk, [act("read", path="src/parser.py"), ok(None, "def parse_text():\n    pass")])
    (step,) = outline(session)
    assert (step.number, step.first_position, step.status) == (1, 1, "success")
    assert step.excerpt.call == "read: src/parser.py"
    assert [line.text for line in step.excerpt.lines] == ["def parse_text():"]
    assert step.excerpt.output_tokens > 0
    assert step.excerpt.result_tokens > 0


def test_a_step_with_a_new_result_is_read_again(project: Project, session: Session) -> None:
    append(project, session.pk, [tool_calls("a", "b")])
    assert outline(session)[0].excerpt.lines == ()
    append(project, session.pk, [ok("a", "see src/first.py")])
    append(project, session.pk, [ok("b", "see src/second.py")])
    assert len(outline(session)[0].excerpt.lines) == 2
    assert len(outline(session, 2)[0].excerpt.lines) == 1
    assert outline(session, 1)[0].excerpt.lines == ()


def test_bodies_are_read_once(project: Project, session: Session) -> None:
    append(project, session.pk, [draft for _ in range(20) for draft in (act(), ok())])
    record_context(session)
    append(project, session.pk, [draft for _ in range(10) for draft in (act(), ok())])
    first = outline(session)
    with CaptureQueriesContext(connection) as again:
        assert outline(session) == first
    assert not any("historyapp_entry" in query["sql"] for query in again)
    outlines._cache.clear()
    with CaptureQueriesContext(connection) as captured_again:
        assert outline(session) == first
    [read] = [query["sql"] for query in captured_again if "historyapp_entry" in query["sql"]]
    assert "BETWEEN 41 AND 60" in read


def test_stored_excerpts_equal_computed_ones(project: Project, session: Session) -> None:
    drafts = [
        tool_calls("a", "b"),
        ok("a", "see src/first.py"),
        ask("go on"),
        ok("b", "see src/second.py"),
        act(),
        act(),
        ok(),
    ]
    append(project, session.pk, drafts)
    computed = outline(session)
    outlines._cache.clear()
    record_context(session)
    assert not Row.objects.filter(excerpt=None).exists()
    outlines._cache.clear()
    with CaptureQueriesContext(connection) as queries:
        assert outline(session) == computed
    assert not any("historyapp_entry" in query["sql"] for query in queries)
    assert rebuild(Session.objects.get(pk=session.pk)).differences == []


def test_excerpts_of_ended_steps_are_stored_once(project: Project, session: Session) -> None:
    append(project, session.pk, [act("read", path="a/one.py"), ok(None, "b/one.py"), tool_calls("a", "b")])
    append(project, session.pk, [ok("a", "see src/first.py")])
    record_context(session)
    assert stored_anchors(session) == [1]
    Row.objects.filter(session=session, anchor=1).update(excerpt="[]")
    outlines._cache.clear()
    append(project, session.pk, [ok("b", "see src/second.py")])
    record_context(session)
    assert stored_anchors(session) == [1, 3]
    assert outline(session)[0].excerpt == Excerpt()
    assert len(outline(session)[1].excerpt.lines) == 2


def test_an_append_removes_the_excerpt_of_the_step_that_it_changes(
    project: Project, session: Session
) -> None:
    """An earlier version stored excerpts of steps that had not ended."""
    append(project, session.pk, [tool_calls("a", "b"), ok("a", "see src/first.py")])
    Row.objects.filter(session=session).update(excerpt="[]")
    append(project, session.pk, [ok("b", "see src/second.py")])
    assert [line.text for line in outline(session)[0].excerpt.lines] == [
        "see src/first.py",
        "see src/second.py",
    ]


def test_a_snapshot_stores_the_excerpts_of_the_newest_steps(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "MAX_NEW_EXCERPTS", 3)
    append(project, session.pk, [draft for _ in range(5) for draft in (act(), ok())])
    record_context(session)
    assert stored_anchors(session) == [5, 7, 9]
    record_context(session)
    assert stored_anchors(session) == [1, 3, 5, 7, 9]


def test_a_fork_stores_the_excerpts_of_shared_steps(project: Project, session: Session) -> None:
    """A fork has a row of its own for the newest step that it shares."""
    append(project, session.pk, [act("read", path="a/one.py"), ok(), act("read", path="a/two.py"), ok()])
    child = fork(project, session.pk)
    append(project, child.pk, [act("read", path="a/three.py"), ok()])
    record_context(child)
    assert (stored_anchors(session), stored_anchors(child)) == ([1], [4, 5])


def test_a_refused_request_leaves_less_for_the_next_one(project: Project, session: Session) -> None:
    append(project, session.pk, [draft for _ in range(6) for draft in (act(), ok(None, "x" * 20_000))])
    refused = [is_refused(session) for _ in range(7)]
    assert (refused[0], refused[-1], refused.count(True) > 1) == (True, False, True)


def is_refused(session: Session) -> bool:
    token = bytes_left.set(17_000)
    try:
        return len(outline(session)) < 6
    except Invalid:
        return True
    finally:
        bytes_left.reset(token)


def test_stored_steps_between_others_are_not_read_again(project: Project, session: Session) -> None:
    append(project, session.pk, [draft for _ in range(30) for draft in (act(), ok())])
    record_context(session)
    Row.objects.filter(session=session, number__in=(1, 2, 30)).update(excerpt=None)
    outlines._cache.clear()
    with CaptureQueriesContext(connection) as captured:
        outline(session)
    reads = [query["sql"] for query in captured if "historyapp_entry" in query["sql"]]
    assert ["BETWEEN 1 AND 4" in reads[0], "BETWEEN 59 AND 60" in reads[1], len(reads)] == [True, True, 2]


def test_a_fork_stores_the_excerpts_of_its_own_steps_first(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "MAX_NEW_EXCERPTS", 2)
    parent = create_session(project, id=UUID(int=(1 << 128) - 1))
    append(project, parent.pk, [draft for _ in range(3) for draft in (act(), ok())])
    child = fork(project, parent.pk)
    append(project, child.pk, [draft for _ in range(2) for draft in (act(), ok())])
    record_context(child)
    assert (stored_anchors(parent), stored_anchors(child)) == ([], [7, 9])


def test_a_context_that_is_not_recorded_stores_nothing(project: Project, session: Session) -> None:
    append(project, session.pk, [act(), ok()])
    serve_context(Session.objects.get(pk=session.pk), BUDGETED)
    assert stored_anchors(session) == []


def test_takes_do_not_replace_later_steps(project: Project, session: Session) -> None:
    append(project, session.pk, [act("read", path="a/one.py"), ok(), act("read", path="a/two.py"), ok()])
    outline(session)
    rewind(project, session.pk, Target(episodes=1))
    append(project, session.pk, [act("read", path="a/three.py"), failed()])
    assert [step.excerpt.names for step in outline(session)] == [("a/one.py",), ("a/three.py",)]
    child = fork(project, session.pk)
    assert outline(child) == outline(session)


def test_a_summary_of_one_step_is_included(project: Project, session: Session) -> None:
    append(project, session.pk, [act(), ok(), act(), ok(), act(), ok()])
    add_summary(project, session.pk, (1, 1), SummaryText("listed src/parser.py"))
    add_summary(project, session.pk, (2, 3), SummaryText("a range stands for no single step"))
    texts = [step.summary.text if step.summary else None for step in outline(session)]
    assert texts == ["listed src/parser.py", None, None]


def test_the_names_of_a_long_summary_are_limited(project: Project, session: Session) -> None:
    append(project, session.pk, [act(), ok()])
    add_summary(project, session.pk, (1, 1), SummaryText(" ".join(f"name_{n}" for n in range(10_000))))
    [step] = outline(session)
    assert step.summary is not None
    assert step.summary.names == tuple(f"name_{n}" for n in range(200))


def test_the_cache_has_a_size_limit(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(project, session.pk, [draft for n in range(6) for draft in (act("read", path=f"a/{n}.py"), ok())])
    outlines._cache.clear()
    excerpts = [step.excerpt for step in outline(session)]
    assert [excerpt.names for excerpt in excerpts] == [(f"a/{n}.py",) for n in range(6)]
    assert outlines._cache.memory == sum(excerpt.memory for excerpt in excerpts)
    monkeypatch.setattr(outlines, "MAX_CACHED", 3 * excerpts[0].memory)
    outlines._cache.clear()
    assert [step.excerpt for step in outline(session)] == excerpts
    assert outlines._cache.memory == 3 * excerpts[0].memory


def test_an_unused_cache_is_emptied(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(process_memory, "time", SimpleNamespace(monotonic=lambda: now[0]))
    append(project, session.pk, [act(), ok()])
    outline(session)
    process_memory.empty_unused_caches(60)
    assert outlines._cache.memory > 0
    now[0] = 61.0
    process_memory.empty_unused_caches(60)
    assert outlines._cache.memory == 0
    assert outline(session)[0].excerpt.call


def test_a_request_whose_excerpts_take_too_much_memory_is_refused(project: Project, session: Session) -> None:
    append(project, session.pk, [draft for _ in range(20) for draft in (act(), ok(None, "see src/a.py"))])
    needed = sum(step.excerpt.memory for step in outline(session))
    for available, allowed in ((2 * needed, nullcontext()), (needed - 1, pytest.raises(Invalid))):
        token = bytes_left.set(available)
        try:
            with allowed:
                outline(session)
        finally:
            bytes_left.reset(token)


def test_a_quarter_of_the_memory_of_excerpts_counts_towards_large_reads(
    project: Project, session: Session
) -> None:
    append(project, session.pk, [draft for _ in range(40) for draft in (act(), ok(None, "see src/a.py"))])
    memory = sum(step.excerpt.memory for step in outline(session))
    read, left = RequestRead(), 10 * memory
    tokens = request_read.set(read), bytes_left.set(left)
    try:
        outline(session)
        counted = left - (bytes_left.get() or 0)
    finally:
        request_read.reset(tokens[0])
        bytes_left.reset(tokens[1])
    assert counted >= memory
    assert read._size <= counted - memory + memory // 4
