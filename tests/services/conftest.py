"""A project and a session to write to."""

import pytest

from historyapp.core.importers import IMPORTERS
from historyapp.models import Project, Session
from historyapp.services.sessions import create_session
from tests.services.scripts import Script


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="Alice's")


@pytest.fixture
def session(project: Project) -> Session:
    return create_session(project, names={"title": "a run"})


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    script = Script([])
    monkeypatch.setitem(IMPORTERS, "script", script)
    return script
