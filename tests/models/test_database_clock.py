"""Claims on work end after their time, and not because the machine's clock is set."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.utils import timezone

from historyapp.models import (
    CompressionItem,
    CompressionRun,
    EvaluatedSession,
    Evaluation,
    Project,
    Session,
    Webhook,
    database_clock,
)
from historyapp.models.database_clock import claim_now

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif("config.getoption('database') != 'sqlite'", reason="PostgreSQL's clock decides there"),
    pytest.mark.skipif("sys.platform != 'linux'", reason="needs a clock that is never set"),
]


def claim_everything() -> None:
    """Claims each kind of work for half a minute."""
    until = claim_now() + timedelta(seconds=30)
    claim = {"claim": uuid4(), "claimed_until": until}
    project = Project.objects.create(name="p")
    session = Session.objects.create(project=project)
    fields = {"project": project, "session": session, "head": 1, "from_step": 1, "to_step": 1}
    CompressionRun.objects.create(**fields, trial=True, planning_until=until)
    run = CompressionRun.objects.create(**fields, planned=True)
    steps = {"first_step": 1, "last_step": 1, "first_position": 1, "last_position": 1}
    CompressionItem.objects.create(run=run, number=1, state="claimed", **steps, **claim)
    evaluation = Evaluation.objects.create(project=project)
    EvaluatedSession.objects.create(evaluation=evaluation, number=1, session_id=session.pk, **claim)
    Webhook.objects.create(project=project, url="https://alice.example/hook", next_at=claim_now(), **claim)


def claimable() -> list[UUID]:
    now = claim_now()
    return [
        *CompressionRun.objects.not_in_planning(now).filter(planned=False),
        *CompressionItem.objects.claimable(now),
        *EvaluatedSession.objects.claimable(now),
        *Webhook.objects.due(timezone.now()),
        *Webhook.objects.ready(timezone.now()),
    ]


@pytest.mark.parametrize("jump", [timedelta(minutes=2), timedelta(hours=-4), timedelta(days=900)])
def test_claims_do_not_end_when_the_clock_is_set(jump: timedelta, monkeypatch: pytest.MonkeyPatch) -> None:
    """The running model calls of a living worker were made and paid twice."""
    claim_everything()
    monkeypatch.setattr(timezone, "now", lambda: datetime.now(UTC) + jump)
    assert claimable() == []
    elapsed = database_clock.elapsed()
    monkeypatch.setattr(database_clock, "elapsed", lambda: elapsed + 31)
    assert len(claimable()) == 5


@pytest.mark.parametrize("start", [datetime(1970, 1, 1, tzinfo=UTC), datetime(1997, 5, 18, tzinfo=UTC), None])
def test_claims_have_ended_when_the_machine_was_restarted(
    start: datetime | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None: they were made by an earlier version."""
    elapsed = database_clock.elapsed()
    monkeypatch.setattr(database_clock, "_start_day", lambda: start)
    claim_everything()
    monkeypatch.undo()
    monkeypatch.setattr(database_clock, "elapsed", lambda: elapsed % 60)
    assert len(claimable()) == 5
