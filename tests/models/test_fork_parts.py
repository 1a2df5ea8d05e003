"""What a fork shares follows from its fork points: no stored lineage is read unless something was rewound."""

from random import Random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.lineage import Lineage
from historyapp.core.live_spans import spans_at
from historyapp.models import NameIndex, Project, Session, sessions, sql
from historyapp.models.ancestors import ancestors_with
from historyapp.models.block_cache import signatures_together
from historyapp.models.history import History
from historyapp.models.indexed_entries import missing_entries
from historyapp.models.sql import window_rows
from historyapp.services.append import append
from historyapp.services.names.index import catch_up
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ok

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("historyapp.core.lineage.BLOCK", 2)


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="Alice's")


def chain(project: Project, depth: int) -> Session:
    """A fork of forks, each of one step."""
    session = create_session(project)
    append(project, session.pk, [act(), ok()])
    for _ in range(depth - 1):
        session = fork(project, session.pk)
        append(project, session.pk, [act(), ok()])
    return read(session)


def read(session: Session) -> Session:
    fresh = Session.objects.get(pk=session.pk)
    _ = fresh.ancestors  # the first request reads them
    return fresh


def everything(lineage: Lineage) -> list[object]:
    """All that can be asked of a lineage."""
    last = lineage.last
    found: list[object] = [lineage.rows(), spans_at(lineage, range(last + 2))]
    found += [lineage.session_at(position) for position in range(last + 2)]
    for first, end in ((1, last), (2, last - 1), (last // 3, last // 2), (last // 2, last)):
        found += [list(lineage.between(first, end, newest_first=newest)) for newest in (False, True)]
    for position in range(last + 1):
        cut = lineage.cut(position)
        found += [cut.rows(), cut.dump(), spans_at(cut, range(position + 1))]
    return found


@pytest.mark.parametrize("seed", range(5))
def test_the_spans_are_those_that_are_stored(
    seed: int, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    made, known = [create_session(project)], 0
    append(project, made[0].pk, [act(), ok(), act(), ok()])
    for _ in range(16):
        session = read(random.choice(made[-2:]))
        what = random.choices(["append", "fork", "fork earlier", "rewind"], (4, 6, 2, 1))[0]
        if what == "append":
            append(project, session.pk, [act(), ok()])
        elif what == "rewind" and session.steps > 1:
            rewind(project, session.pk, Target(to_position=random.randint(1, session.lineage().last)))
        else:
            at = random.randint(1, session.lineage().last) if what == "fork earlier" else None
            made.append(fork(project, session.pk, at_position=at))
            append(project, made[-1].pk, [act()])
    for session in made:
        for as_of in {None, session.fork_position, session.fork_position + 1, session.fork_position // 2}:
            fresh = read(session)
            with monkeypatch.context() as patch:
                patch.setattr(sessions, "cached_fork_parts", lambda _: None)
                stored = everything(read(session).lineage(as_of))
            lineage = fresh.lineage(as_of)
            known += lineage.known_older(1) is not None
            assert everything(lineage) == stored
    assert known, "some lineages are known"


def test_a_fork_of_forks_reads_no_stored_spans(project: Project) -> None:
    lineage = chain(project, 12).lineage()
    assert lineage.older
    with CaptureQueriesContext(connection) as captured:
        assert len(lineage.rows()) == 12
        assert len(spans_at(lineage, range(1, 25))) == 24
    assert len(captured) == 0


def test_whether_a_fork_of_forks_is_indexed_takes_one_query(project: Project) -> None:
    session = chain(project, 8)
    append(project, session.pk, [act()])
    missing = missing_entries(read(session).lineage())
    assert [(part.after, part.last) for part in missing][-2:] == [(12, 14), (14, 17)]
    while not catch_up(read(session).lineage(), limit=None):
        pass
    lineage = read(session).lineage()
    with CaptureQueriesContext(connection) as captured:
        assert missing_entries(lineage) == []
    assert len(captured) == 1
    assert "historyapp_session" not in captured[0]["sql"]
    assert missing_entries(read(session).lineage(9)) == []
    assert session.forked_from is not None
    parent = NameIndex.objects.get(session=session.forked_from)
    NameIndex.objects.filter(pk=parent.pk).update(position=13)
    assert [part.after for part in missing_entries(read(session).lineage())] == [13]
    NameIndex.objects.filter(pk=parent.pk).update(position=14, version=1)
    assert [part.after for part in missing_entries(read(session).lineage())] == [12]


def test_the_window_of_a_fork_of_forks_is_read_by_its_spans(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_WINDOW_ENTRIES", 8)
    session = chain(project, 8)
    with CaptureQueriesContext(connection) as captured:
        positions = [row.position for row in window_rows(History(session).lineage)]
    assert positions == list(range(16, 0, -1))
    assert len(captured) == 2, "no query sorts more than eight entries"
    if connection.vendor == "sqlite":
        assert " OR " not in captured[-1]["sql"]


def test_reads_of_a_fork_of_forks_have_no_parameter_for_each_ancestor(project: Project) -> None:
    def parameters(depth: int) -> list[int]:
        session = chain(project, depth)
        counts: list[int] = []

        def count(execute: Any, sql: str, values: Any, many: bool, context: Any) -> Any:
            counts.append(len(values))
            return execute(sql, values, many, context)

        history = History(read(session))
        with connection.execute_wrapper(count):
            assert history.session.shared_revision > 0
            assert history.row(2).number == 2
            assert signatures_together(history.lineage.owners, 100) == []
            assert ancestors_with("summaries", history.session.ancestors) == set()
        return counts

    assert parameters(4) == parameters(12)
