"""The names of forks of forks are indexed together, a bounded part in each request."""

from uuid import UUID

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from historyapp import enqueue
from historyapp.core.searchable import Passage
from historyapp.enqueue import ensure_name_index
from historyapp.models import NameIndex, Project, Session, TextBlock
from historyapp.models.history import History
from historyapp.models.text_search import TextSearch
from historyapp.services.append import append
from historyapp.services.names import index as name_index
from historyapp.services.names.index import catch_up
from historyapp.services.names.origins import origins_of
from historyapp.services.projections import rebuild
from historyapp.services.rewinds import Target, fork, rewind
from tests.services.drafts import act, ask, ok
from tests.services.names.test_index import counted_writes, flagged, origin, read


def fork_chain(project: Project, session: Session, depth: int) -> Session:
    """A fork of ``depth`` forks. Each acts on a file of its own and on one that its parent was given."""
    append(project, session.pk, [ask("go"), act(), ok(outputs="a/file_0.py")])
    for number in range(1, depth + 1):
        session = fork(project, session.pk)
        append(project, session.pk, [read(f"a/file_{number - 1}.py"), ok(outputs=f"a/file_{number}.py")])
    return Session.objects.get(pk=session.pk)


def test_the_small_sessions_of_a_fork_are_stored_in_few_transactions(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = fork_chain(project, session, 60)
    monkeypatch.setattr(name_index, "STORED_SECONDS", 60)
    with counted_writes(monkeypatch) as writes:
        assert catch_up(newest.lineage(), 60)
    assert len(writes) == 4, "for 50 sessions one for their indexes and one for their names, then for 11"
    assert NameIndex.objects.count() == 61
    for one in Session.objects.filter(pk__in=[session.pk, newest.pk]):
        assert rebuild(one).differences == []
    assert origin(newest, newest.steps).origin == "given"
    assert flagged(newest, "unseen") == []


@pytest.mark.parametrize("forks", [60, pytest.param(300, marks=pytest.mark.thorough)])
def test_a_request_indexes_a_part_of_many_forks_and_a_worker_the_rest(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch, forks: int
) -> None:
    append(project, session.pk, [ask("go")])
    newest = session
    for number in range(forks):
        newest = fork(project, newest.pk)
        append(project, newest.pk, [read(f"a/file_{number}.py")])
    history = History(Session.objects.get(pk=newest.pk))
    requested: list[UUID] = []
    monkeypatch.setattr(enqueue, "request_name_index", requested.append)
    with counted_writes(monkeypatch) as writes:
        assert not catch_up(history.lineage, seconds=0)
    assert len(writes) == 2, "one for empty indexes, one for the names"
    assert NameIndex.objects.filter(position__gt=F("session__fork_position")).count() == 1
    assert catch_up(history.lineage, 600, limit=None)
    assert NameIndex.objects.filter(position__gte=F("session__head")).count() == forks + 1, (
        "not the newest only"
    )
    assert ensure_name_index(history)
    NameIndex.objects.filter(session=session).delete()
    monkeypatch.setattr(catch_up, "__kwdefaults__", {"limit": 0})
    assert not ensure_name_index(history), "the oldest one counts too"
    assert requested == [history.session.pk]


def test_the_forks_of_a_session_that_a_worker_indexes_wait_for_it(project: Project, session: Session) -> None:
    newest = fork_chain(project, session, 2)
    append(project, newest.pk, [read("b/guess.py")])
    newest.refresh_from_db()
    assert not catch_up(newest.lineage(), limit=2)
    assert not NameIndex.objects.exists(), "otherwise no file would ever count as unseen"
    assert catch_up(newest.lineage())
    assert [row.number for row in flagged(newest, "unseen")] == [4]


def test_a_complete_index_takes_one_query_at_any_number_of_rewinds_and_forks(
    project: Project, session: Session, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    append(project, session.pk, [ask("go")])
    for _ in range(40):
        append(project, session.pk, [act(), ok(), act(), ok()])
        rewind(project, session.pk, Target(episodes=1))
    forked = fork(project, session.pk)
    append(project, forked.pk, [read("a/b.py"), ok()])
    for one in Session.objects.all():
        lineage = one.lineage()
        assert lineage.older
        assert catch_up(lineage, 60)
        lineage = Session.objects.get(pk=one.pk).lineage()
        assert lineage.owners
        with django_assert_num_queries(1):
            assert catch_up(lineage)


def test_the_origins_of_a_step_take_as_many_queries_at_any_number_of_forks(
    project: Project, session: Session
) -> None:
    counts = []
    for depth in (20, 40):
        newest = fork_chain(project, session, depth)
        assert catch_up(newest.lineage(), 60, limit=None)
        origins_of(History(newest), newest.steps)
        again = History(Session.objects.get(pk=newest.pk))
        with CaptureQueriesContext(connection) as queries:
            found = origins_of(again, newest.steps)
        assert [name.origin for name in found.names] == ["given"]
        counts.append(len(queries))
    assert counts[1] <= counts[0] + 2, "one read of spans and one of places more"


def test_a_text_is_found_without_reading_the_blocks_of_forks_that_have_none(
    project: Project, session: Session
) -> None:
    newest = fork_chain(project, session, 20)
    with CaptureQueriesContext(connection) as queries:
        hits = TextSearch(History(newest), "file_20.py").find(10).hits
    assert [hit.match.field for hit in hits] == ["result"]
    assert sum("textblock" in query["sql"] for query in queries) == 1
    TextBlock.of(session.pk, 1, 3, [Passage(3, 1, "result", "a/file_20.py")]).save()
    hits = TextSearch(History(newest), "file_20.py").find(10).hits
    assert [hit.session for hit in hits] == [session.pk, newest.pk], "it has blocks now"
