"""The largest billed input of a run, with and without checkpoints of its figures."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.entries import EntryDraft, ModelOutput
from historyapp.models import FiguresCheckpoint, Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.figures import largest_input as module
from historyapp.services.figures.largest_input import largest_input
from historyapp.services.figures.run_figures import INTERVAL, count_run
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ok


def answers(*sizes: int) -> list[EntryDraft]:
    usages = ({"usage": {"input_tokens": size, "output_tokens": 1}} if size else {} for size in sizes)
    return [EntryDraft(ModelOutput(text="done"), None, usage) for usage in usages]


def recorded(project: Project, *sizes: int) -> Session:
    session = create_session(project)
    append(project, session.pk, answers(*sizes))
    session.refresh_from_db()
    return session


def largest(session: Session, as_of: int | None = None) -> int:
    session.refresh_from_db()
    return largest_input(History(session, as_of))


def test_the_largest_input_is_that_of_all_live_steps(project: Project) -> None:
    session = recorded(project, 5, 900, 0, 30)
    assert largest(session) == 900
    assert largest(session, as_of=1) == 5
    assert largest(fork(project, session.pk, at_step=1)) == 5
    rewind(project, session.pk, Target(to_step=1))
    assert largest(session) == 5


def test_the_largest_input_is_zero_without_usage(project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [act(), ok()])
    assert largest(session) == 0


def test_steps_before_and_after_the_newest_checkpoint_count(project: Project) -> None:
    session = recorded(project, 700, *[5] * INTERVAL, 20)
    count_run(History(session))
    assert FiguresCheckpoint.objects.filter(session=session).exists()
    assert largest(session) == 700
    append(project, session.pk, answers(800))
    assert largest(session) == 800


def test_queries_and_rows_do_not_grow_with_the_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def queries(session: Session) -> list[dict[str, Any]]:
        history = History(session)
        with CaptureQueriesContext(connection) as captured:
            largest_input(history)
        return list(captured)

    short, long = recorded(project, *[5] * 20), recorded(project, 700, *[5] * (4 * INTERVAL))
    count_run(History(long))
    assert len(queries(long)) <= len(queries(short)) + 1  # the checkpoint
    FiguresCheckpoint.objects.all().delete()
    monkeypatch.setattr(module, "MAX_ENTRIES", 50)
    assert largest(long) == 5, "the first step is not counted yet"
