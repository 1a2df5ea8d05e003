"""Excerpts of steps: stored with the steps or computed later, with the same result."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.policies.base import StepOutline
from historyapp.models import Episode as Row
from historyapp.models import Project, Session, outlines
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.projections import rebuild
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from historyapp.services.summaries import SummaryText, add_summary
from tests.services.drafts import act, ask, failed, ok, tool_calls


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="Alice's")


@pytest.fixture
def session(project: Project) -> Session:
    return create_session(project)


def outline(session: Session, as_of: int | None = None) -> list[StepOutline]:
    history = History(Session.objects.get(pk=session.pk), as_of)
    return history.outline(1, history.steps)


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
    """The bodies of an import, whose steps are stored without excerpts. Other sessions read none."""
    append(project, session.pk, [draft for _ in range(20) for draft in (act(), ok())], lenient=True)
    append(project, session.pk, [draft for _ in range(10) for draft in (act(), ok())])
    first = outline(session)
    with CaptureQueriesContext(connection) as again:
        assert outline(session) == first
    assert not any("historyapp_entry" in query["sql"] for query in again)
    outlines._cache.clear()
    with CaptureQueriesContext(connection) as captured_again:
        assert outline(session) == first
    [read] = [query["sql"] for query in captured_again if "historyapp_entry" in query["sql"]]
    assert "BETWEEN 1 AND 40" in read


def test_stored_excerpts_equal_computed_ones(project: Project, session: Session) -> None:
    drafts = [
        tool_calls("a", "b"),
        ok("a", "see src/first.py"),
        ask("go on"),
        ok("b", "see src/second.py"),
        act(),
    ]
    append(project, session.pk, drafts)
    stored = outline(session)
    outlines._cache.clear()
    Row.objects.update(excerpt=None)
    assert outline(session) == stored
    assert rebuild(Session.objects.get(pk=session.pk)).differences == []
    assert Row.objects.filter(excerpt=None).count() == 0
    outlines._cache.clear()
    assert outline(session) == stored


def test_a_long_batch_leaves_excerpts_to_the_first_reader(project: Project, session: Session) -> None:
    drafts = [
        draft for n in range(15) for draft in (act("read", path=f"a/{n}.py"), ok(None, f"see b/{n}.py"))
    ]
    append(project, session.pk, drafts)
    assert Row.objects.filter(session=session, excerpt=None).count() == 15
    one_by_one = create_session(project)
    for draft in drafts:
        append(project, one_by_one.pk, [draft])
    assert not Row.objects.filter(session=one_by_one, excerpt=None).exists()
    assert outline(session) == outline(one_by_one)


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


def test_the_cache_has_a_size_limit(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlines, "MAX_CACHED", 3)
    append(project, session.pk, [draft for n in range(6) for draft in (act("read", path=f"a/{n}.py"), ok())])
    assert [step.excerpt.names for step in outline(session)] == [(f"a/{n}.py",) for n in range(6)]
    assert len(outlines._cache) == 3
