"""A step has the same window in a run, its takes, its forks and as of any moment."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.entries import EntryDraft, ModelOutput
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.models.visibility import Visibility
from historyapp.services.append import append
from historyapp.services.figures.largest_request import largest_request
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.services.drafts import draft

pytestmark = pytest.mark.django_db
MODEL = "claude-opus-4-5"


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="Alice's")


def used(size: int, model: str = MODEL) -> EntryDraft:
    return draft(ModelOutput(text="ok"), model=model, usage={"input_tokens": size, "output_tokens": 1})


@pytest.fixture
def session(project: Project) -> Session:
    session = create_session(project)
    append(project, session.pk, [used(90_000), used(251_000)])
    session.refresh_from_db()
    return session


def largest(session: Session, as_of: int | None = None) -> int:
    session.refresh_from_db()
    return largest_request(History(session, as_of), MODEL, 90_000)


def test_later_steps_takes_parents_and_forks_show_the_window(project: Project, session: Session) -> None:
    assert largest(session, as_of=1) == 251_000
    child = fork(project, session.pk, at_step=1)
    assert largest(child) == 251_000
    assert largest(fork(project, child.pk, at_step=1)) == 251_000
    rewind(project, session.pk, Target(to_step=1))
    assert largest(session) == 251_000
    append(project, child.pk, [used(400_000)])
    assert largest(session) == 400_000


def test_steps_outside_the_history_that_fit_the_usual_window_do_not_count(project: Project) -> None:
    """They would show how large later requests were."""
    session = create_session(project)
    append(project, session.pk, [used(90_000), used(148_000)])
    child = fork(project, session.pk, at_step=1)
    assert largest(child) == largest(session, as_of=1) == 90_000
    rewind(project, session.pk, Target(to_step=1))
    append(project, session.pk, [used(170_000)])
    assert largest(child) == largest(session, as_of=1) == 90_000


def test_another_model_shows_nothing(project: Project, session: Session) -> None:
    child = fork(project, session.pk, at_step=1)
    append(project, session.pk, [used(900_000, "gpt-5")])
    assert largest(child) == 251_000


def test_a_reader_of_a_share_gets_no_figure_of_other_steps(session: Session) -> None:
    hidden = History(session, 1, Visibility())
    assert largest_request(hidden, MODEL, 90_000) == 90_000


def test_a_run_without_relatives_is_not_read_again(session: Session) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert largest_request(History(session), MODEL, 90_000) == 90_000
    assert len(queries) == 1
