"""The files that are known without reading the log: of the newest checkpoint and of the steps after it."""

import pytest

from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services import known_files as module
from historyapp.services.append import append
from historyapp.services.figures import run_figures
from historyapp.services.figures.run_figures import count_run
from historyapp.services.known_files import KnownFile, known_files
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ok


def record(project: Project, *paths: str) -> Session:
    session = create_session(project)
    append(project, session.pk, [each for path in paths for each in (act("read_file", path=path), ok())])
    session.refresh_from_db()
    return session


def test_checkpoint_and_newer_steps_are_added_up(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_figures, "INTERVAL", 2)
    session = record(project, "a.py", "b.py", "a.py", "b.py", "a.py")
    count_run(History(session))
    monkeypatch.setattr(module, "NEWEST_STEPS", 2)
    assert known_files(History(session), "py") == [KnownFile("a.py", 3, 0), KnownFile("b.py", 2, 0)]
    assert known_files(History(session, 8), "A.PY") == [KnownFile("a.py", 2, 0)]


def test_without_a_checkpoint_only_the_newest_steps_are_read(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NEWEST_STEPS", 2)
    session = record(project, "a.py", "b.py", "c.py")
    assert [file.path for file in known_files(History(session), "py")] == ["b.py", "c.py"]
