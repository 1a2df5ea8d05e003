"""A project and a session to write to."""

import pytest

from historyapp.models import Project, Session
from historyapp.services.sessions import create_session


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="Alice's")


@pytest.fixture
def session(project: Project) -> Session:
    return create_session(project, names={"title": "a run"})
