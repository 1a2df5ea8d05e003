"""Forks and sub-agents of a session, and where they leave its history."""

from typing import Any

import pytest

from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.models.relatives import MAX_RELATIVES, relatives_of, steps_before
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ok


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="p")


def session_of(project: Project, steps: int = 5) -> Session:
    session = create_session(project)
    append(project, session.pk, [draft for _ in range(steps) for draft in (act(), ok())])
    return Session.objects.get(pk=session.pk)


def now(session: Session) -> History:
    return History(Session.objects.get(pk=session.pk))


def fork_steps(history: History) -> list[int | None]:
    return steps_before(history, relatives_of(history.session).forks)


def test_forks_come_with_the_step_after_which_they_began(project: Project) -> None:
    session = session_of(project)
    new = [fork(project, session.pk, at_step=step).pk for step in (4, 2)]
    assert [one.pk for one in relatives_of(session).forks] == new
    assert fork_steps(now(session)) == [4, 2]


def test_a_fork_of_a_take_begins_where_the_take_does(project: Project) -> None:
    session = session_of(project)
    fork(project, session.pk, at_step=4)
    rewind(project, session.pk, Target(to_step=2))
    append(project, session.pk, [act(), ok(), act(), ok(), act(), ok()])
    assert fork_steps(now(session)) == [2]


def test_a_fork_before_the_first_step_is_at_step_0(project: Project) -> None:
    session = session_of(project)
    fork(project, session.pk, at_position=0)
    assert fork_steps(now(session)) == [0]


def test_forks_of_later_entries_have_no_step_in_an_earlier_history(project: Project) -> None:
    session = session_of(project)
    fork(project, session.pk, at_step=2)
    fork(project, session.pk, at_step=5)
    assert fork_steps(History(session, as_of=6)) == [2, None]


def test_the_newest_of_many_forks_are_read_in_two_queries(
    project: Project, django_assert_num_queries: Any
) -> None:
    session = session_of(project)
    made = [fork(project, session.pk, at_step=1 + number % 5).pk for number in range(MAX_RELATIVES + 3)]
    history = now(session)
    with django_assert_num_queries(2):
        forks = relatives_of(history.session).forks
        steps = steps_before(history, forks)
    assert [one.pk for one in forks] == made[3:]
    assert steps == [1 + number % 5 for number in range(3, MAX_RELATIVES + 3)]


def test_subagents_come_with_their_names_and_the_time_at_which_they_began(
    project: Project, django_assert_num_queries: Any
) -> None:
    session = session_of(project)
    child = create_session(project, names={"title": "Explore", "agent": "claude-code"})
    Session.objects.filter(pk=child.pk).update(spawned_by=session)
    with django_assert_num_queries(1):
        (subagent,) = relatives_of(session).subagents
        names = subagent.title, subagent.agent, subagent.created_at
    assert names == ("Explore", "claude-code", child.created_at)
    assert relatives_of(session).forks == []
