"""What a worker does by the clock."""

import threading

import pytest
from celery import Task

from historyapp import tasks, worker
from historyapp.models import CompressionRun, Project
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ok

pytestmark = pytest.mark.django_db(transaction=True)


def test_looking_for_due_sessions_again_sends_no_more_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    project = Project.objects.create(name="ours")
    session = create_session(project)
    append(project, session.pk, [draft for _ in range(8) for draft in (act("read", path="a.py"), ok())])
    sent: list[str] = []
    monkeypatch.setattr(Task, "delay", lambda task, id: sent.append(id))
    for _ in range(3):
        tasks.look_for_due()
    (run,) = CompressionRun.objects.filter(session=session)
    assert sent == [str(run.pk)] * tasks.MOST_HANDS


def test_the_clock_goes_on_after_an_unexpected_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stopping = threading.Event()
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        if len(looks) == 3:
            stopping.set()
        raise KeyError("nobody thought of this")

    monkeypatch.setattr(worker, "stopping", stopping)
    monkeypatch.setattr(worker, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(worker, "look_for_due", look)
    worker._tick()
    assert len(looks) == 3
