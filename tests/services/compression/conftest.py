"""A session of finished steps, and a model that summarises them over real HTTP."""

from collections.abc import Callable
from typing import Any

import pytest

from historyapp.models import CompressionRun, Project, Session
from historyapp.services.append import append
from historyapp.services.compression import run
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import start_run
from historyapp.services.sessions import create_session
from tests.llm.conftest import loopback, loopback_server
from tests.services.drafts import act, ask, ok

__all__ = ["loopback", "loopback_server"]

Record = Callable[[int], Session]
Compress = Callable[..., CompressionRun]


@pytest.fixture(autouse=True)
def _short_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens rests: a worker first assumes a busy session and would rest for a second in every run."""
    monkeypatch.setattr(run, "BUSY_WRITE_PAUSE", 0.05)


@pytest.fixture
def record(project: Project) -> Record:
    """A session with a number of finished steps, each about another file."""

    def record(steps: int) -> Session:
        session = create_session(project)
        drafts = [ask("Mend the parser, please")]
        for number in range(1, steps + 1):
            drafts += [act("read", path=f"src/module_{number}.py"), ok(outputs=f"line {number}\n" * 20)]
        append(project, session.pk, drafts)
        return Session.objects.get(pk=session.pk)

    return record


@pytest.fixture
def compress(project: Project) -> Compress:
    """A whole run, carried out in the test."""

    def compress(session: Session, **options: Any) -> CompressionRun:
        run_request = RunRequest(**{"strategy": "episode_summary", "model": "gpt-5-mini", **options})
        run = start_run(project, session.pk, run_request).run
        process_run(run.pk)
        return CompressionRun.objects.get(pk=run.pk)

    return compress
