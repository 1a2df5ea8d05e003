"""The cost in /metrics is what the spending counters have kept, however a model call ends."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from historyapp.models import Project, Session, SpendingCounter, SpendingReservation
from historyapp.models.database_clock import claim_now
from historyapp.services.caps import set_caps
from historyapp.services.deletions import hide
from historyapp.services.model_calls import ModelCall
from historyapp.services.reservations import reserve
from historyapp.services.spending import Payer
from tests.api.agent import Agent, ask
from tests.api.test_costs_of_calls import CALL
from tests.llm.loopback import Answer, Broken, Loopback, Raw, Refusal, Step
from tests.services.compression.conftest import Compress, Record, compress, record

__all__ = ["compress", "record"]
MAXIMUM = 80_000
"""Less than the reserved maximum of a call of these tests, in millionths of a dollar."""
ANSWER = 1_000
"""More than the cost of an answer."""


@pytest.fixture
def ready(run: Agent, project: Project, monkeypatch: pytest.MonkeyPatch) -> Agent:
    set_caps(project, {"day": 5_000_000, "month": 5_000_000})
    run.append(ask("find it"))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(settings, "PLAYHEAD_METRICS_TOKEN", "a-token-of-prometheus")
    return run


def in_metrics(purpose: str = "call") -> int:
    """The cost of calls in millionths of a dollar."""
    response = Client().get("/metrics", headers={"Authorization": "Bearer a-token-of-prometheus"})
    label = f'playhead_model_cost_dollars_total{{provider="openai",purpose="{purpose}"}} '
    lines = response.content.decode().splitlines()
    return round(sum(float(line.removeprefix(label)) for line in lines if line.startswith(label)) * 1_000_000)


def in_counters(project: Project) -> int:
    (counted,) = set(SpendingCounter.objects.of_project(project.pk).values_list("counted", flat=True))
    return counted


def in_ledger(run: Agent) -> tuple[int, int]:
    """The spent part of the caps, and the cost of the recorded answers."""
    ledger = run.get("/ledger")
    (spent,) = {round(cap["spent"] * 1_000_000) for cap in ledger["caps"] if not cap["reserved"]}
    return spent, round(ledger["money"] * 1_000_000)


def no_usage(_: object) -> Raw:
    choice = '{"index":0,"delta":{"content":"All is well."},"finish_reason":"stop"}'
    return Raw(f'data: {{"id":"x","model":"m","choices":[{choice}]}}\n\ndata: [DONE]\n\n'.encode())


ENDS: dict[str, tuple[Callable[[Any], Step], int, int]] = {
    "answered": (lambda _: Answer(text="Line 7."), 1, ANSWER),
    "refused": (lambda _: Refusal(400, "no such option", "invalid_request_error"), 0, 0),
    "limited": (lambda _: Refusal(429, "slow down", "rate_limit_error"), 0, 0),
    "failed": (lambda _: Refusal(500, "a fault", "server_error"), 0, 0),
    "broken off": (lambda _: Broken("cut", after=4), 2 * MAXIMUM, 3 * MAXIMUM),
    "cut before the first word": (lambda _: Broken("cut", after=0), 4 * MAXIMUM, 5 * MAXIMUM),
    "without usage": (no_usage, MAXIMUM, 2 * MAXIMUM),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_cost_of_each_end_is_in_metrics_once(
    end: str, ready: Agent, loopback: Loopback, project: Project
) -> None:
    loopback.default, least, most = ENDS[end]
    for number in (1, 2):
        ready.post("/calls", CALL)
        spent, recorded = in_ledger(ready)
        assert in_metrics() == in_counters(project) == spent
        assert number * least <= spent <= number * most
        assert recorded == (spent if end == "answered" else 0)


@pytest.mark.parametrize("change", ["conflict", "archive", "erasure"])
def test_an_answer_that_cannot_be_recorded_is_in_metrics(
    change: str, ready: Agent, loopback: Loopback, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """12 of 13 paid calls were missing."""
    append = ModelCall._append

    def append_later(call: ModelCall, *arguments: Any) -> None:
        if change == "conflict":
            ready.append(ask("and this"))
        elif change == "archive":
            Session.objects.update(status=Session.Status.ARCHIVED)
        else:
            hide(Session.objects.get(), "alice")
        append(call, *arguments)

    monkeypatch.setattr(ModelCall, "_append", append_later)
    loopback.default = ENDS["answered"][0]
    response = ready.post("/calls", CALL)
    assert b"event: error" in response.body
    assert in_metrics() == in_counters(project)
    assert 0 < in_metrics() < ANSWER
    if change != "erasure":
        assert in_ledger(ready) == (in_metrics(), 0)


@pytest.mark.django_db(transaction=True)
def test_a_call_whose_client_has_left_is_in_metrics(
    ready: Agent, loopback: Loopback, project: Project
) -> None:
    loopback.steps.append(Answer(text="All is well, and goes on for a while. " * 10))
    ready._client.post(f"{ready._base}/calls", CALL, "application/json").close()
    assert in_metrics() == in_counters(project) == in_ledger(ready)[0] > MAXIMUM


def test_the_maximum_of_a_killed_process_is_in_metrics_when_it_has_expired(
    ready: Agent, loopback: Loopback, project: Project
) -> None:
    for number in (1, 2):
        killed = reserve(Payer(project.pk, Session.objects.get().pk), "gpt-5", 1000, 500)
        SpendingReservation.objects.update(expires_at=claim_now() - timedelta(seconds=1))
        ready.post("/calls", CALL)
        killed.settle(0)
        assert in_metrics() == in_counters(project) == in_ledger(ready)[0]
        assert in_metrics() > number * killed.attempt_cost


def test_a_reservation_of_an_earlier_version_is_not_in_metrics(
    ready: Agent, loopback: Loopback, project: Project
) -> None:
    reservation = reserve(Payer(project.pk, Session.objects.get().pk), "gpt-5", 1000, 500)
    SpendingReservation.objects.update(label="")
    reservation.settle(None)
    assert (in_metrics(), in_counters(project)) == (0, reservation.attempt_cost)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("end", ENDS)
def test_the_cost_of_runs_is_in_metrics(
    end: str, ready: Agent, loopback: Loopback, project: Project, record: Record, compress: Compress
) -> None:
    session = record(8)
    loopback.default = ENDS[end][0]
    run = compress(session)
    assert run.calls
    assert in_metrics("compression") == in_counters(project)
    assert (in_counters(project) > 0) == (ENDS[end][1] > 0)
    assert in_metrics() == 0
