"""Alice owns a project. Bob is a member with his own key. Charlie is a stranger with another project."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django.plugin import DjangoDbBlocker

from historyapp.models import ApiKey, Project
from historyapp.services.keys import create_key
from historyapp.services.sessions import create_session
from tests.api.agent import Agent
from tests.llm.conftest import loopback, loopback_server  # noqa: F401 its fixtures

EVERYTHING = ("read", "write", "admin", "spend")


def key_for(project: Project, name: str, scopes: tuple[str, ...] = EVERYTHING) -> str:
    """A key that has just been used, so that requests of a test do not update its last use."""
    text = create_key(project, name, scopes=scopes)[1]
    ApiKey.objects.filter(project=project, name=name).update(last_used_at=timezone.now())
    return text


@dataclass
class Owner:
    """Alice while she records what all tests of a module begin with."""

    project: Project
    agent: Agent
    session_id: str = ""

    def begin_run(self) -> Agent:
        """Her agent, with the address of a new session."""
        self.session_id = str(create_session(self.project, names={"title": "a run"}).pk)
        return self.agent.within(f"/sessions/{self.session_id}")


@pytest.fixture(scope="module")
def owner(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Owner]:
    """For fixtures of a module. Each test undoes its changes, and may not need real transactions.

    A test that uses such a fixture gets the same project and session from ``project`` and ``session_id``.
    """
    with django_db_blocker.unblock(), transaction.atomic():
        project = Project.objects.create(name="Alice's")
        yield Owner(project, Agent(key_for(project, "owner")))
        transaction.set_rollback(True)


def owner_of(request: pytest.FixtureRequest) -> Owner | None:
    """The module's owner if the test uses what she has recorded."""
    return request.getfixturevalue("owner") if "owner" in request.fixturenames else None


@pytest.fixture
def project(request: pytest.FixtureRequest, db: None) -> Project:
    recording = owner_of(request)
    return recording.project if recording else Project.objects.create(name="Alice's")


@pytest.fixture
def alice(project: Project) -> Agent:
    return Agent(key_for(project, "alice"))


@pytest.fixture
def bob(project: Project) -> Agent:
    return Agent(key_for(project, "bob"))


@pytest.fixture
def charlie(db: None) -> Agent:
    return Agent(key_for(Project.objects.create(name="Charlie's"), "charlie"))


@pytest.fixture
def session_id(request: pytest.FixtureRequest, project: Project) -> str:
    recording = owner_of(request)
    if recording and recording.session_id:
        return recording.session_id
    return str(create_session(project, names={"title": "a run"}).pk)


@pytest.fixture
def run(alice: Agent, session_id: str) -> Agent:
    """Alice's agent, with the address of one session."""
    return alice.within(f"/sessions/{session_id}")
