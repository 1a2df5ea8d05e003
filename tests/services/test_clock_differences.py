"""The clocks of two machines differ by 30 seconds: no worker takes work that another one has claimed."""

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from historyapp.models import CompressionItem, EvaluatedSession, Project, Webhook
from historyapp.services.compression.claims import claim, renew
from historyapp.services.compression.items import plan
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import start_run, unclaimed_runs
from historyapp.services.compression.store import finish_run
from historyapp.services.evaluations import work
from historyapp.services.evaluations.start import EvaluationRequest, start_evaluation
from historyapp.services.webhooks import delivery
from historyapp.services.webhooks.endpoints import create_webhook
from tests.services.compression.conftest import Record, record
from tests.services.evaluations.lookups import record_lookups

__all__ = ["record"]

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        "config.getoption('database') != 'postgres'", reason="with SQLite there is one machine"
    ),
]
DIFFERENCE = timedelta(seconds=31)
SetClock = Callable[[timedelta], None]


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """Sets the clock of this process this much later than that of the database."""
    now = timezone.now

    def set_clock(difference: timedelta) -> None:
        def shifted() -> datetime:
            return now() + difference

        monkeypatch.setattr(timezone, "now", shifted)

    return set_clock


@pytest.mark.parametrize("later", [DIFFERENCE, -DIFFERENCE])
def test_items_of_a_run(record: Record, project: Project, set_clock: SetClock, later: timedelta) -> None:
    """Its model calls were made, and paid for, twice."""
    run = start_run(project, record(8).pk, RunRequest("simple_extract")).run
    plan(run.pk)
    first, second = uuid4(), uuid4()
    if later < timedelta(0):
        set_clock(later)
    items = claim(run.pk, first, 100)
    assert len(items) == 4
    set_clock(max(later, timedelta(0)) - min(later, timedelta(0)))
    assert claim(run.pk, second, 100) == []
    assert not finish_run(run.pk)
    assert unclaimed_runs() == []
    set_clock(timedelta(0))
    renew(first)
    assert set(CompressionItem.objects.values_list("claim", flat=True)) == {first}


def test_sessions_of_an_evaluation(project: Project, set_clock: SetClock) -> None:
    request = EvaluationRequest([record_lookups(project).pk], budgets=(2000,), policies=("budgeted",))
    evaluation = start_evaluation(project, request)
    item = work.claim(evaluation.pk)
    assert item is not None
    set_clock(DIFFERENCE)
    assert work.claim(evaluation.pk) is None
    assert EvaluatedSession.objects.get().claim == item.claim


def test_webhooks(project: Project, set_clock: SetClock) -> None:
    webhook = create_webhook(project, "https://example.com/hook")
    assert delivery._claim(webhook.pk, uuid4()) is not None
    set_clock(DIFFERENCE)
    assert delivery._claim(webhook.pk, uuid4()) is None
    assert Webhook.objects.get().claim is not None
