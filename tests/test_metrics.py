"""/metrics shows what this process and the database counted, to holders of its token only."""

import json
import socket
import threading
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.db import DatabaseError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis
from uuid_utils.compat import uuid7

from historyapp import lag, metrics
from historyapp.celery import app
from historyapp.models import CompressionRun, Project, QueuedMessage, Session, Total, Webhook
from historyapp.services.append import append
from historyapp.services.keys import create_key
from historyapp.services.queue import put, store_unreadable
from historyapp.services.sessions import create_session
from historyapp.services.totals import count_cost, count_model_calls
from historyapp.services.transactions import writing
from historyapp.services.workers import record_worker
from tests.plans import statements
from tests.redis import redis_server
from tests.services.drafts import act, ask, ok

TOKEN = "a-token-of-prometheus"
Sample = tuple[str, frozenset[tuple[str, str]]]

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _with_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "PLAYHEAD_METRICS_TOKEN", TOKEN)


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="Alice's")


def scrape(client: Client, token: str = TOKEN) -> Any:
    return client.get("/metrics", headers={"Authorization": f"Bearer {token}"})


def samples(client: Client) -> dict[Sample, float]:
    response = scrape(client)
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(response.content.decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def figure(metrics: dict[Sample, float], name: str, **labels: str) -> float:
    return metrics.get((f"playhead_{name}", frozenset(labels.items())), 0)


def test_metrics_are_not_found_if_no_token_is_set(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "PLAYHEAD_METRICS_TOKEN", "")
    assert scrape(client).status_code == scrape(client, "").status_code == 404


@pytest.mark.parametrize("token", ["", "another-token-of-it", TOKEN[:-1], f"{TOKEN}x", "tökén"])
def test_another_token_gets_401_and_no_figure(client: Client, token: str) -> None:
    response = scrape(client, token)
    assert (response.status_code, b"playhead_" in response.content) == (401, False)
    assert response["WWW-Authenticate"].startswith("Bearer")


def test_a_request_without_a_token_or_with_an_api_key_gets_no_metrics(
    client: Client, project: Project
) -> None:
    assert client.get("/metrics").status_code == 401
    key = create_key(project, "admin", scopes=("read", "write", "admin"))[1]
    assert scrape(client, key).status_code == 401


def test_a_request_is_counted_by_its_route_and_never_by_its_address(client: Client) -> None:
    secret = "token-of-a-sign-in-link"
    labels = {"method": "GET", "route": "/sign-in/<str:token>", "status": "404"}
    before = samples(client)
    status = client.get(f"/sign-in/{secret}?q={secret}").status_code
    labels["status"] = str(status)
    text = scrape(client).content.decode()
    after = samples(client)
    assert secret not in text
    assert figure(after, "http_requests_total", **labels) == 1 + figure(
        before, "http_requests_total", **labels
    )
    of_route = {"method": "GET", "route": "/sign-in/<str:token>"}
    name = "http_request_seconds_count"
    assert figure(after, name, **of_route) == 1 + figure(before, name, **of_route)


def test_no_series_has_the_creation_time_of_another(client: Client) -> None:
    client.get("/")
    assert "_created{" not in scrape(client).content.decode()


def test_unknown_addresses_and_methods_make_no_new_series(client: Client) -> None:
    def series() -> int:
        return len([name for name, _ in samples(client) if name.startswith("playhead_http")])

    client.get("/made-up")
    client.get("/api/v1/made-up")
    client.generic("MADEUP", "/made-up")
    samples(client)
    before = series()
    for number in range(20):
        client.get(f"/made-up/{number}")
        client.get(f"/api/v1/made-up/{number}")
        client.generic(f"MADEUP{number}", "/made-up")
    assert series() == before


@pytest.mark.django_db(transaction=True)
def test_entries_are_counted_when_they_are_committed(client: Client) -> None:
    project = Project.objects.create(name="Alice's")
    session = create_session(project)
    before = figure(samples(client), "entries_appended_total")
    append(project, session.pk, [ask("hello"), act("read", path="a"), ok(outputs="b")])
    with pytest.raises(Exception, match="expected_position"):
        append(project, session.pk, [ask("again")], expected_position=99)
    assert figure(samples(client), "entries_appended_total") == before + 3


def test_the_queue_is_shown_with_its_length_and_its_oldest_message(client: Client) -> None:
    assert figure(samples(client), "queue_oldest_seconds") == 0
    put(lag.QUEUE, "{}")
    QueuedMessage.objects.update(created_at=timezone.now() - timedelta(seconds=90))
    put(lag.QUEUE, "{}")
    store_unreadable(lag.QUEUE, "garbled", ValueError("no JSON"))
    metrics = samples(client)
    assert figure(metrics, "queue_messages") == 2
    assert 90 <= figure(metrics, "queue_oldest_seconds") < 100


def test_the_queue_is_the_one_that_celery_uses() -> None:
    assert app.conf.task_default_queue == lag.QUEUE


def test_messages_in_redis_are_counted(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with redis_server() as server:
        monkeypatch.setattr(settings, "REDIS_URL", server.url)
        with Redis.from_url(server.url) as redis:
            redis.lpush(lag.QUEUE, "{}", "{}", "{}")
        assert figure(samples(client), "queue_messages") == 3


def test_a_redis_that_does_not_respond_removes_only_its_own_figure(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        monkeypatch.setattr(settings, "REDIS_URL", f"redis://127.0.0.1:{taken.getsockname()[1]}/0")
        metrics = samples(client)
    assert ("playhead_queue_messages", frozenset()) not in metrics
    assert figure(metrics, "database_up") == 1


def a_run(session: Session, state: str, age: int = 0) -> CompressionRun:
    started = timezone.now() - timedelta(seconds=age)
    run = CompressionRun(
        project=session.project, session=session, strategy="x", state=state, created_at=started, trial=True
    )
    run.head = run.from_step = run.to_step = 1
    run.save()
    return run


def test_runs_are_shown_by_state_and_the_lag_is_that_of_the_oldest_queued_one(
    client: Client, project: Project
) -> None:
    session = create_session(project)
    a_run(session, "running", age=5000)
    a_run(session, "queued", age=300)
    a_run(session, "queued", age=20)
    metrics = samples(client)
    assert figure(metrics, "compression_runs", state="queued") == 2
    assert figure(metrics, "compression_runs", state="running") == 1
    assert 300 <= figure(metrics, "compression_lag_seconds") < 310


def test_the_lag_of_webhooks_is_the_longest_wait(client: Client, project: Project) -> None:
    assert figure(samples(client), "webhook_lag_seconds") == 0
    for age in (300, 20):
        due_at = timezone.now() - timedelta(seconds=age)
        Webhook.objects.create(project=project, url="https://alice.example/hook", next_at=due_at)
    assert 300 <= figure(samples(client), "webhook_lag_seconds") < 310


def test_totals_are_shown_with_their_labels_and_money_in_dollars(client: Client) -> None:
    Total.objects.create(name=Total.Name.ENDED_RUNS, label="partly_failed", value=3)
    Total.objects.create(name=Total.Name.MODEL_CALLS, label="call openai", value=7)
    Total.objects.create(name=Total.Name.FAILED_MODEL_CALLS, label="call openai", value=2)
    Total.objects.create(name=Total.Name.COST, label="compression anthropic", value=1_250_000)
    metrics = samples(client)
    openai = {"purpose": "call", "provider": "openai"}
    assert figure(metrics, "compression_runs_ended_total", state="partly_failed") == 3
    assert figure(metrics, "model_calls_total", **openai) == 7
    assert figure(metrics, "model_call_failures_total", **openai) == 2
    assert figure(metrics, "model_cost_dollars_total", purpose="compression", provider="anthropic") == 1.25


def test_disk_database_and_workers_are_shown(client: Client) -> None:
    record_worker(uuid7())
    metrics = samples(client)
    assert 0 < figure(metrics, "disk_free_bytes") < figure(metrics, "disk_size_bytes")
    assert figure(metrics, "database_bytes") > 0
    assert figure(metrics, "workers") == figure(metrics, "database_up") == 1


def test_without_the_database_the_figures_of_the_process_are_still_shown(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise DatabaseError("connection to host db1 as alice failed")

    monkeypatch.setattr(connection, "cursor", refuse)
    metrics = samples(client)
    assert ("playhead_database_up", frozenset()) in metrics
    assert figure(metrics, "database_up") == 0
    assert figure(metrics, "disk_free_bytes") > 0
    assert ("playhead_workers", frozenset()) not in metrics


def test_no_query_reads_the_log(client: Client) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert scrape(client).status_code == 200
    text = json.dumps([query["sql"] for query in queries])
    assert len(queries) <= 10
    assert "historyapp_entry" not in text
    assert "historyapp_episode" not in text
    assert "historyapp_summary" not in text


def test_runs_due_sessions_and_messages_are_found_by_their_indexes() -> None:
    with statements() as issued:
        list(metrics._work())
    used = {access.index for statement in issued for access in statement.accesses}
    assert used >= {"run_by_state", "session_due_by_project", "waiting_messages"}


def test_runs_of_earlier_versions_are_added_up_once(client: Client, project: Project) -> None:
    session = create_session(project)
    a_run(session, "queued")
    for state, model, cost in (("succeeded", "openai:gpt-5", 70), ("failed", "openai:gpt-5-mini", None)):
        run = a_run(session, state)
        run.model, run.calls, run.cost = model, 2, cost
        run.save()
    import_module("historyapp.migrations.0016_totals").add_up(apps, None)
    assert {(total.name, total.label): total.value for total in Total.objects.all()} == {
        (Total.Name.ENDED_RUNS, "succeeded"): 1,
        (Total.Name.ENDED_RUNS, "failed"): 1,
        (Total.Name.MODEL_CALLS, "compression openai"): 4,
        (Total.Name.COST, "compression openai"): 70,
    }


@pytest.mark.django_db(transaction=True)
def test_concurrent_additions_are_all_counted() -> None:
    def add() -> None:
        for _ in range(20):
            with writing():
                count_model_calls("call", "openai", 1, failed=1)
                count_cost("call openai", 5)
        connection.close()

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    metrics = {total.name: total.value for total in Total.objects.all()}
    assert metrics == {"model calls": 80, "failed model calls": 80, "cost": 400}
