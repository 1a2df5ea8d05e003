"""Queries that are compiled once return what Django's queries return."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db.models import Count, F, QuerySet
from django.db.transaction import TransactionManagementError, atomic
from pytest_django import DjangoAssertNumQueries

from historyapp.models import Annotation, Project, Session
from historyapp.models.compiled import CompiledQuery
from historyapp.services.sessions import create_session

A_SESSION, A_PROJECT = UUID(int=1), UUID(int=2)


def with_relations(id: UUID, project: UUID) -> "QuerySet[Session]":
    rows = Session.objects.filter(pk=id, project=project, head=0).select_related("project", "annotation")
    return rows.annotate(annotated=Count("annotation"), other=F("steps") + 3)


@pytest.fixture
def session(db: None) -> Session:
    session = create_session(Project.objects.create(name="ours"), names={"title": "a run"})
    Annotation.objects.create(session=session, note="a note")
    return session


def test_the_rows_relations_and_annotations_are_those_of_the_orm(
    session: Session, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    query = CompiledQuery(with_relations, A_SESSION, A_PROJECT)
    for _ in range(2):
        with django_assert_num_queries(1):
            [row] = query.rows(session.pk, session.project_id)
            assert (row.project.name, row.annotation.note) == ("ours", "a note")
        expected = with_relations(session.pk, session.project_id).get()
        assert row == expected
        assert vars(row).keys() == vars(expected).keys()
        assert [getattr(row, name) for name in vars(row) if name != "_state"] == [
            getattr(expected, name) for name in vars(expected) if name != "_state"
        ]
        assert row.get_deferred_fields() == expected.get_deferred_fields() != set()
        assert not row._state.adding


def test_each_call_has_its_own_values(session: Session) -> None:
    query = CompiledQuery(with_relations, A_SESSION, A_PROJECT)
    other = create_session(session.project, names={})
    assert [query.rows(row.pk, session.project_id) for row in (session, other)] == [[session], [other]]
    assert query.rows(uuid4(), session.project_id) == query.rows(session.pk, uuid4()) == []


def test_values_are_those_of_the_orm(session: Session) -> None:
    def build(id: UUID, project: UUID) -> "QuerySet[Session, tuple[Any, ...]]":
        return with_relations(id, project).values_list("annotated", "id", "project_id", F("head") + 1)

    values = session.pk, session.project_id
    query = CompiledQuery(build, A_SESSION, A_PROJECT)
    assert query.tuples(*values) == list(build(*values)) == [(1, *values, 1)]


def test_a_query_is_built_once(session: Session) -> None:
    built = []

    def build(id: UUID) -> "QuerySet[Session]":
        built.append(id)
        return Session.objects.filter(pk=id)

    query = CompiledQuery(build, A_SESSION)
    assert query.rows(session.pk) == query.rows(session.pk) == [session]
    assert built == [A_SESSION]


def test_a_query_must_contain_each_example(session: Session) -> None:
    query = CompiledQuery(lambda _: Session.objects.filter(pk=session.pk), A_SESSION)
    with pytest.raises(AssertionError, match="FROM"):
        query.rows(session.pk)


def test_a_query_keeps_no_connection(session: Session) -> None:
    query = CompiledQuery(with_relations, A_SESSION, A_PROJECT)
    query.rows(session.pk, session.project_id)
    [(compiler, *_)] = query._compiled.values()
    assert vars(compiler)["connection"] is None


@pytest.mark.skipif("config.getoption('database') == 'sqlite'", reason="SQLite locks no rows")
@pytest.mark.django_db(transaction=True)
def test_a_locking_query_is_refused_outside_a_transaction() -> None:
    query = CompiledQuery(lambda id: Session.objects.select_for_update().filter(pk=id), A_SESSION)
    with atomic():
        assert query.rows(uuid4()) == []
    with pytest.raises(TransactionManagementError):
        query.rows(uuid4())
