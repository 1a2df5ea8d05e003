"""Running the commands that look at sessions, on the test's own database."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections

from historyapp.models import Project
from historyapp.services.append import append
from historyapp.services.bootstrap import default_project
from historyapp.services.sessions import create_session
from historyapp.terminal.command_line import run
from tests.services.drafts import act, ask, failed, ok

TITLE = "Fix the parser"


@dataclass(frozen=True)
class Printed:
    code: int
    out: str
    err: str

    @property
    def answer(self) -> Any:
        return json.loads(self.out)


Playhead = Callable[..., Printed]


@pytest.fixture
def playhead(
    db: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Playhead]:
    """Runs ``playhead ARGUMENTS…`` on the data folder."""
    monkeypatch.delenv("PLAYHEAD_URL", raising=False)
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)  # it would end the transaction

    def playhead(*arguments: object) -> Printed:
        try:
            code = run([str(argument) for argument in arguments], None)
        except SystemExit as end:  # as argparse ends
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return Printed(code, captured.out, captured.err)

    yield playhead
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture
def project(db: None) -> Project:
    return default_project()


@pytest.fixture
def session_id(project: Project) -> UUID:
    """A session of three steps. The second failed."""
    session = create_session(project, names={"title": TITLE, "agent": "fixer"}, tags=["parser"])
    steps = [act("ls"), ok(outputs="shop.py"), act("test", command="go test ./..."), failed(), act(), ok()]
    append(project, session.pk, [ask("Please fix it."), *steps])
    return session.pk
