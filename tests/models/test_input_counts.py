"""Inputs are counted in their index, up to a bound."""

from typing import Any

import pytest

from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.models.input_counts import MOST_COUNTED, count_inputs
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ok, said


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="p")


def session_with_inputs(project: Project, steps: int, inputs: int = 1) -> Session:
    """A session with some inputs before each step: of one input, positions 1, 4, 7, …"""
    session = create_session(project)
    drafts = [draft for _ in range(steps) for draft in (*[said("go on")] * inputs, act(), ok())]
    append(project, session.pk, drafts)
    return Session.objects.get(pk=session.pk)


def test_inputs_between_two_places_are_counted_without_these(project: Project) -> None:
    lineage = History(session_with_inputs(project, 4)).lineage
    assert count_inputs(lineage, [(0, 2), (2, 8), (4, 7), (8, 9)]) == [1, 2, 0, 0]


def test_inputs_of_takes_are_not_counted(project: Project) -> None:
    session = session_with_inputs(project, 4)
    rewind(project, session.pk, Target(to_step=1))
    append(project, session.pk, [said("again"), act(), ok()])
    session.refresh_from_db()
    assert count_inputs(History(session).lineage, [(0, session.head + 1)]) == [2]


def test_inputs_that_a_fork_shares_are_counted(project: Project) -> None:
    new = fork(project, session_with_inputs(project, 4).pk, at_step=3)
    append(project, new.pk, [said("otherwise"), act(), ok()])
    new.refresh_from_db()
    assert count_inputs(History(new).lineage, [(0, new.head + 1)]) == [4]


def test_counting_stops_at_a_bound_and_takes_one_query(
    project: Project, django_assert_num_queries: Any
) -> None:
    session = session_with_inputs(project, 3, inputs=2 * MOST_COUNTED)
    step = 2 * MOST_COUNTED + 2
    with django_assert_num_queries(1):
        counts = count_inputs(History(session).lineage, [(step * n, step * (n + 1)) for n in range(3)])
    assert counts == [MOST_COUNTED] * 3
