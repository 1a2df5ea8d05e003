"""A model call is made once, also if it is sent again while it runs."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from historyapp.llm.retries import RetryPolicy
from historyapp.models import IdempotencyKey, Project, Session
from historyapp.models.database_clock import claim_now
from historyapp.services import model_calls, running_requests
from historyapp.services.idempotency import RUNNING_FOR, STATUS_RUNNING
from historyapp.services.running_requests import RunningRequest
from tests.api.agent import Agent, ask
from tests.api.test_model_calls import events_of, stream
from tests.api.test_problems import assert_problem
from tests.llm.loopback import Loopback, Refusal

KEY = {"Idempotency-Key": "call-1"}
CALL = {"model": "gpt-5", "policy": "live"}


@pytest.fixture
def ready(run: Agent, loopback: Loopback) -> Agent:
    run.append(ask("find it"))
    return run


def test_of_two_equal_model_calls_at_once_one_is_made(
    ready: Agent, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile = list[Any]()

    def send_again(_: float) -> None:
        meanwhile.append(ready.post("/calls", CALL, KEY))
        meanwhile.append(ready.post("/calls", {**CALL, "max_tokens": 9000}, KEY))

    monkeypatch.setattr(model_calls, "RETRIES", RetryPolicy(sleep=send_again))
    loopback.steps.append(Refusal(429, "slow down", "rate_limit_error"))
    first = ready.post("/calls", CALL, KEY)
    equal, other = meanwhile
    assert_problem(equal, 409, "still running", "after 5 seconds")
    assert equal.headers["Retry-After"] == "5"
    assert_problem(other, 422, "another request")
    assert events_of(ready.post("/calls", CALL, KEY)) == events_of(first)[-1:]
    assert len(loopback.requests) == 2  # the attempts of the first request


@pytest.mark.django_db(transaction=True)
def test_a_model_call_that_was_cancelled_can_be_sent_again(ready: Agent, loopback: Loopback) -> None:
    response, events = stream(ready, CALL, KEY)
    next(events)
    assert_problem(ready.post("/calls", CALL, KEY), 409, "still running")
    response.close()
    assert events_of(ready.post("/calls", CALL, KEY))[-1][0] == "appended"


@pytest.mark.parametrize("direction", [-1, 1])
def test_a_killed_process_keeps_a_key_for_three_minutes(
    ready: Agent, loopback: Loopback, direction: int
) -> None:
    """Also if the clock was set back since then."""
    response = ready.post("/calls", CALL, KEY)
    seen_at = claim_now()
    IdempotencyKey.objects.update(status=STATUS_RUNNING, response="killed", created_at=seen_at)
    assert_problem(ready.post("/calls", CALL, KEY), 409, "free after 3 minutes")
    IdempotencyKey.objects.update(created_at=seen_at + direction * (RUNNING_FOR + timedelta(minutes=1)))
    again = events_of(ready.post("/calls", CALL, KEY))
    assert again != events_of(response)
    assert events_of(ready.post("/calls", CALL, KEY)) == again[-1:]


@pytest.mark.skipif("config.getoption('database') != 'sqlite'", reason="it is PostgreSQL's own clock")
@pytest.mark.parametrize("jump", [timedelta(minutes=5), timedelta(days=-1)])
def test_a_running_call_is_not_made_again_when_the_clock_is_set(
    ready: Agent, loopback: Loopback, jump: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send_again(_: float) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(timezone, "now", lambda: datetime.now(UTC) + jump)
            assert_problem(ready.post("/calls", CALL, KEY), 409, "still running")

    monkeypatch.setattr(model_calls, "RETRIES", RetryPolicy(sleep=send_again))
    loopback.steps.append(Refusal(429, "slow down", "rate_limit_error"))
    events = events_of(ready.post("/calls", CALL, KEY))
    assert events_of(ready.post("/calls", CALL, KEY)) == events[-1:]
    assert len(loopback.requests) == 2
    assert abs(IdempotencyKey.objects.get().created_at - timezone.now()) < timedelta(hours=1)


def test_a_running_request_renews_its_key_and_names_its_session(
    ready: Agent, project: Project, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A purge empties the response of a session that it finds by its name."""
    monkeypatch.setattr(running_requests, "RENEW_SECONDS", 0)
    items = RunningRequest(project, "a", "f", UUID(session_id)).watch(n for n in range(3))
    times = [IdempotencyKey.objects.get().created_at for _ in items]
    assert times == sorted(set(times))
    assert IdempotencyKey.objects.get().sessions == str(Session.objects.get().pk)
