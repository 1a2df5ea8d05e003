"""Concurrent requests: nothing is lost, and nothing is done twice."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier
from typing import Any

import pytest
from django.db import connection, transaction

from historyapp.models import Entry, Session
from tests.api.agent import Agent, Received, ask

pytestmark = pytest.mark.django_db(transaction=True)


def run_concurrently(*calls: Callable[[], Received]) -> list[Received]:
    """Runs each call in a thread of its own; all start at the same time."""
    start = Barrier(len(calls))

    def carry_out(call: Callable[[], Received]) -> Received:
        start.wait()
        try:
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(carry_out, calls))


def test_fifty_concurrent_writers_leave_no_gap(run: Agent) -> None:
    def write(number: int) -> Callable[[], Received]:
        batch = [ask(f"{number}.{index}") for index in range(3)]
        return lambda: run.post("/entries", {"entries": batch})

    responses = run_concurrently(*[write(number) for number in range(50)])
    assert [response.status for response in responses] == [201] * 50
    assert all(
        response["positions"] == list(range(p := response["positions"][0], p + 3)) for response in responses
    )
    assert sorted(p for response in responses for p in response["positions"]) == list(range(1, 151))
    items = run.get("/entries?limit=500")["items"]
    assert [item["position"] for item in items] == list(range(1, 151))
    assert {item["content"] for item in items} == {f"{n}.{i}" for n in range(50) for i in range(3)}
    assert run.get()["head"] == 150


def test_only_one_of_several_concurrent_actions_is_accepted(run: Agent) -> None:
    responses = run_concurrently(*[run.act] * 8)
    assert sorted(response.status for response in responses) == [201] + [409] * 7
    assert {response["detail"] for response in responses if response.status == 409} == {
        "Action for current cycle already set"
    }
    assert run.get()["steps"] == 1


def test_only_one_of_several_concurrent_results_is_accepted(run: Agent) -> None:
    run.act()
    responses = run_concurrently(*[run.succeed, run.fail] * 4)
    assert sorted(response.status for response in responses) == [201] + [409] * 7
    assert Entry.objects.count() == 2


def test_only_one_of_several_writers_that_expect_the_same_head_succeeds(run: Agent) -> None:
    body = {"entries": [ask()], "expected_position": 0}
    responses = run_concurrently(*[lambda: run.post("/entries", body)] * 8)
    assert sorted(response.status for response in responses) == [201] + [409] * 7
    assert run.get()["head"] == 1


@pytest.mark.parametrize(
    ("path", "body"),
    [("/entries", {"entries": [ask()]}), ("/actions", {"use_tool": {"name": "ls"}}), ("/forks", {})],
)
def test_concurrent_duplicate_requests_are_processed_once(
    run: Agent, path: str, body: dict[str, Any]
) -> None:
    before = run.get()["head"], Session.objects.count()
    responses = run_concurrently(*[lambda: run.post(path, body, {"Idempotency-Key": "one"})] * 8)
    assert [response.status for response in responses] == [201] * 8
    assert all(response.body == responses[0].body for response in responses)
    assert sum("Idempotency-Replayed" in response.headers for response in responses) == 7
    after = run.get()["head"], Session.objects.count()
    assert sum(after) == sum(before) + 1


@pytest.mark.skipif("config.getoption('database') == 'sqlite'", reason="SQLite runs one writer at a time")
def test_a_request_that_waits_for_its_session_has_written_nothing(run: Agent) -> None:
    """Otherwise the feed of all projects would wait with it."""

    def append() -> Received:
        try:
            return run.post("/entries", {"entries": [ask()]}, {"Idempotency-Key": "one"})
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool, closing(connection.copy()) as other, other.cursor() as reader:
        with transaction.atomic():
            Session.objects.select_for_update().get()
            response = pool.submit(append)
            waiting: list[Any] = []
            while not waiting:
                reader.execute(
                    "SELECT backend_xid FROM pg_stat_activity "
                    "WHERE wait_event_type = 'Lock' AND datname = current_database()"
                )
                waiting = reader.fetchall()
            assert waiting == [(None,)]
        assert response.result().status == 201


def test_concurrent_requests_with_one_id_create_one_session(alice: Agent) -> None:
    body = {"id": "0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d"}
    responses = run_concurrently(*[lambda: alice.post("/sessions", body)] * 8)
    assert sorted(response.status for response in responses) == [201] + [409] * 7


def test_concurrent_rewinds_and_appends_leave_a_readable_history(run: Agent) -> None:
    for _ in range(3):
        run.step()
    responses = run_concurrently(
        *[lambda: run.post("/rewinds", {"episodes": 1})] * 4,
        *[lambda: run.post("/entries", {"entries": [ask()]})] * 8,
    )
    assert [response.status for response in responses] == [201] * 12
    everything = run.get("/entries?take=all&limit=500")["items"]
    assert [item["position"] for item in everything] == list(range(1, 19))
    live = [item["position"] for item in run.get("/entries?limit=500")["items"]]
    assert live == [item["position"] for item in everything if item["live"]]
    assert run.get("/episodes").status == run.get("/messages").status == 200


def test_concurrent_compression_requests_share_one_run(run: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("historyapp.enqueue.wake", lambda run: None)
    for _ in range(6):
        run.step()
    request = {"strategy": "simple_extract"}
    responses = run_concurrently(*[lambda: run.post("/compressions", request)] * 8)
    assert [response.status for response in responses] == [202] * 8
    assert sorted(response["joined"] for response in responses) == [False] + [True] * 7
    assert len({response["id"] for response in responses}) == 1
