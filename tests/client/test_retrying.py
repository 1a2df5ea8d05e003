"""Requests are retried if that can help, and no write is recorded twice."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from uuid import UUID

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.client import (
    AsyncPlayhead,
    Conflict,
    Invalid,
    ModelInput,
    Playhead,
    ServerFailed,
    ServerUnavailable,
    Wait,
)
from historyapp.client.retrying import MAX_PAUSE, Outcome, pause_before_retry, retry_after
from tests.client.proxy import BUSY, SHORT_ANSWER, Fault, FaultyProxy, lost_request, lost_response, responding

PROBLEM = "application/problem+json"
FAILED = responding(500, {"Content-Type": PROBLEM}, b"{}")
FAULTS = [lost_request, lost_response, BUSY, SHORT_ANSWER, FAILED]
NAMES = ["lost_request", "lost_response", "busy", "short_answer", "failed"]


@pytest.fixture
def session_id(playhead: Playhead) -> UUID:
    return playhead.create_session().id


@pytest.fixture
def shaky(proxy: FaultyProxy, api_key: str, monkeypatch: pytest.MonkeyPatch) -> Playhead:
    """A client behind the proxy with faults. It skips the pauses between attempts."""
    monkeypatch.setattr("historyapp.client.sync_client.time.sleep", lambda seconds: None)
    return Playhead(proxy.url, api_key)


@pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
def test_a_write_is_recorded_once_if_a_request_or_response_is_lost(
    shaky: Playhead, proxy: FaultyProxy, session_id: UUID, fault: Fault
) -> None:
    proxy.faults = [fault, fault]
    assert shaky.append(session_id, [ModelInput(content="go")]).positions == [1]
    assert [entry.position for entry in shaky.entries(session_id)] == [1]
    keys = [seen.idempotency_key for seen in proxy.seen if seen.method == "POST"]
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert keys[0]


def test_each_write_has_a_key_of_its_own(shaky: Playhead, proxy: FaultyProxy, session_id: UUID) -> None:
    for _ in range(3):
        shaky.append(session_id, [ModelInput(content="go")])
    assert len({seen.idempotency_key for seen in proxy.seen}) == 3
    assert shaky.session(session_id).head == 3


def test_an_explicit_idempotency_key_is_valid_across_clients(playhead: Playhead, session_id: UUID) -> None:
    for _ in range(2):
        playhead.append(session_id, [ModelInput(content="go")], idempotency_key="task-7-go")
    assert playhead.session(session_id).head == 1
    with pytest.raises(Invalid):
        playhead.append(session_id, [ModelInput(content="stop")], idempotency_key="task-7-go")


@pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
def test_an_import_is_retried_completely(shaky: Playhead, proxy: FaultyProxy, fault: Fault) -> None:
    proxy.faults = [fault]
    chat = b'[{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]'
    (file,) = shaky.import_files([("sum.json", chat)]).files
    assert (file.sessions[0].entries, len(list(shaky.sessions()))) == (2, 1)


def test_an_export_is_retried_until_its_first_byte(
    shaky: Playhead, proxy: FaultyProxy, session_id: UUID
) -> None:
    proxy.faults = [lost_response, BUSY]
    assert b"".join(shaky.export(session_id)).startswith(b"{")


def test_an_export_that_breaks_off_is_an_error(shaky: Playhead, proxy: FaultyProxy, session_id: UUID) -> None:
    proxy.faults = [SHORT_ANSWER]
    with pytest.raises(ServerUnavailable):
        list(shaky.export(session_id))


def test_a_write_that_conflicts_with_the_session_is_not_retried(
    shaky: Playhead, proxy: FaultyProxy, session_id: UUID
) -> None:
    with pytest.raises(Conflict):
        shaky.append(session_id, [ModelInput(content="go")], expected_position=9)
    assert len(proxy.seen) == 1


def test_a_fault_of_the_server_is_final_after_three_attempts(
    proxy: FaultyProxy, api_key: str, session_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("historyapp.client.sync_client.time.sleep", pauses.append)
    proxy.faults = [responding(503, {"Retry-After": "7"}), responding(429, {"Retry-After": "9"}), FAILED]
    with pytest.raises(ServerFailed):
        Playhead(proxy.url, api_key).session(session_id)
    assert pauses == [7.0, 9.0]


def test_no_retry_is_made_if_the_requested_pause_exceeds_the_remaining_time(
    proxy: FaultyProxy, api_key: str, session_id: UUID
) -> None:
    proxy.faults = [responding(503, {"Retry-After": "60", "Content-Type": PROBLEM}, b"{}")]
    with pytest.raises(ServerUnavailable) as caught:
        Playhead(proxy.url, api_key, on_outage=Wait(50)).session(session_id)
    assert (caught.value.retry_after, len(proxy.seen)) == (60.0, 1)


def test_the_asynchronous_client_retries_too(proxy: FaultyProxy, api_key: str, session_id: UUID) -> None:
    async def run() -> None:
        proxy.faults = [BUSY, lost_response]
        async with AsyncPlayhead(proxy.url, api_key) as client:
            appended = await client.append(session_id, [ModelInput(content="go")])
            assert (appended.head, (await client.session(session_id)).head) == (1, 1)
            proxy.faults = [SHORT_ANSWER]
            with pytest.raises(ServerUnavailable):
                [chunk async for chunk in client.export(session_id)]

    asyncio.run(run())


def answer(status: int, after: str | None = None) -> httpx.Response:
    return httpx.Response(status, headers={} if after is None else {"Retry-After": after})


@pytest.mark.parametrize("status", [200, 301, 400, 401, 404, 409, 422])
def test_a_definite_response_is_final(status: int) -> None:
    assert pause_before_retry(answer(status), 1, repeatable=True) is None


@pytest.mark.parametrize(
    ("outcome", "again"),
    [
        (answer(500), False),
        (answer(502), False),
        (answer(503), True),
        (answer(429), True),
        (answer(409, "5"), True),
        (httpx.ConnectError("refused"), True),
        (httpx.ReadTimeout("late"), False),
        (httpx.ReadError("cut"), False),
    ],
)
def test_a_request_that_is_not_repeatable_is_retried_only_before_a_response(
    outcome: Outcome, again: bool
) -> None:
    assert (pause_before_retry(outcome, 1, repeatable=False) is not None) is again
    assert pause_before_retry(outcome, 1, repeatable=True) is not None


@pytest.mark.parametrize("error", [httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.DecodingError])
def test_a_permanent_failure_is_not_retried(error: type[httpx.RequestError]) -> None:
    assert pause_before_retry(error("no"), 1, repeatable=True) is None


def test_retry_after_can_be_a_date_or_seconds() -> None:
    soon = datetime.now(UTC) + timedelta(minutes=10)
    wait = retry_after(answer(503, format_datetime(soon)))
    assert wait is not None
    assert 500 < wait <= 600
    assert retry_after(answer(503, format_datetime(soon - timedelta(days=1), usegmt=False))) == 0


@given(st.text())
def test_an_invalid_retry_after_is_ignored(text: str) -> None:
    response = httpx.Response(503, headers=[(b"Retry-After", text.encode())])
    wait = retry_after(response)
    assert wait is None or wait >= 0


@given(st.integers(1, 2000))
def test_pauses_grow_up_to_a_limit(attempt: int) -> None:
    pause = pause_before_retry(httpx.ReadError("cut"), attempt, repeatable=True)
    assert pause is not None
    assert min(0.125 * 2.0 ** min(attempt - 1, 20), MAX_PAUSE / 2) <= pause <= MAX_PAUSE
