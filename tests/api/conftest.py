"""Alice owns a project. Bob is a member with his own key. Charlie is a stranger with another project."""

import pytest
from django.utils import timezone

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


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="Alice's")


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
def session_id(project: Project) -> str:
    return str(create_session(project, names={"title": "a run"}).pk)


@pytest.fixture
def run(alice: Agent, session_id: str) -> Agent:
    """Alice's agent, with the address of one session."""
    return alice.within(f"/sessions/{session_id}")
