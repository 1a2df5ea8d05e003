"""``on_outage="spool"``: writes return at once, and reach the session once, in order, when it is back."""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from historyapp.client import (
    ActionProposal,
    Conflict,
    ModelInput,
    NotSpooled,
    NotYetKnown,
    Playhead,
    Recorder,
    ServerUnavailable,
    Spool,
    UseTool,
    retrying,
)
from historyapp.client.spooled_writes import MAX_TOO_LONG
from tests.client.bad_server import BadServer, hanging
from tests.client.proxy import FaultyProxy, lost_request, lost_response, responding

LOOK = ActionProposal(thoughts="so", use_tool=UseTool(name="ls"))
Open = Callable[[], Playhead]


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "agent.spool")


@pytest.fixture
def session_id(playhead: Playhead) -> UUID:
    return playhead.create_session().id


@pytest.fixture
def open_client(proxy: FaultyProxy, api_key: str, spool: Spool) -> Iterator[Open]:
    """Clients whose connection to the server a test can break."""
    opened: list[Playhead] = []

    def open() -> Playhead:
        opened.append(Playhead(proxy.url, api_key, on_outage=spool))
        return opened[-1]

    yield open
    for client in opened:
        client.close()


def down(proxy: FaultyProxy) -> None:
    proxy.faults = [lost_request] * 10_000


def up(proxy: FaultyProxy) -> None:
    proxy.faults = []


def contents(playhead: Playhead, session_id: UUID) -> list[Any]:
    return [entry.fields["content"] for entry in playhead.entries(session_id)]


def test_nothing_is_spooled_while_the_server_answers(
    open_client: Open, spool: Spool, session_id: UUID
) -> None:
    appended = open_client().append(session_id, [ModelInput(content="go")])
    assert (appended.spooled, appended.positions, appended.head) == (False, [1], 1)
    assert spool.waiting() == 0


def test_writes_of_an_outage_arrive_once_and_in_order(
    open_client: Open, proxy: FaultyProxy, spool: Spool, playhead: Playhead, session_id: UUID
) -> None:
    client = open_client()
    client.append(session_id, [ModelInput(content=0)])
    down(proxy)
    for number in range(1, 6):
        assert client.append(session_id, [ModelInput(content=number)]).spooled
    assert spool.waiting() == 5
    up(proxy)
    assert client.flush(20) == 0
    client.append(session_id, [ModelInput(content=6)])
    assert contents(playhead, session_id) == list(range(7))


def test_spooled_writes_are_sent_automatically(
    open_client: Open, proxy: FaultyProxy, spool: Spool, playhead: Playhead, session_id: UUID
) -> None:
    down(proxy)
    open_client().append(session_id, [ModelInput(content="go")])
    up(proxy)
    for _ in range(200):
        if not spool.waiting():
            break
        time.sleep(0.1)
    assert contents(playhead, session_id) == ["go"]


def test_only_the_first_write_of_an_outage_waits_briefly(
    api_key: str, tmp_path: Path, session_id: UUID
) -> None:
    with BadServer(hanging) as server:
        client = Playhead(server.url, api_key, on_outage=Spool(tmp_path / "spool", patience=1))
        took = []
        for number in range(5):
            started = time.monotonic()
            client.append(session_id, [ModelInput(content=number)])
            took.append(time.monotonic() - started)
        client.close()
    assert took[0] < 10  # the server would keep it for a minute
    assert sum(took[1:]) < 2  # four waits would take 4


def test_closing_keeps_the_connection_of_a_running_request(
    api_key: str, tmp_path: Path, session_id: UUID
) -> None:
    with BadServer(hanging) as server:
        client = Playhead(server.url, api_key, on_outage=Spool(tmp_path / "spool", patience=0.1))
        client.append(session_id, [ModelInput(content="go")])
        sent = server.requests
        while server.requests == sent:
            time.sleep(0.01)
        client.close()
        assert not client._http.is_closed
    end = time.monotonic() + 20
    while not client._http.is_closed:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_write_that_the_server_has_recorded_is_not_repeated(
    open_client: Open, proxy: FaultyProxy, playhead: Playhead, session_id: UUID
) -> None:
    proxy.faults = [lost_response] * 6
    client = open_client()
    client.append(session_id, [ModelInput(content="go")])
    client.append(session_id, [ModelInput(content="on")])
    assert client.flush(30) == 0
    assert contents(playhead, session_id) == ["go", "on"]
    keys = {seen.idempotency_key for seen in proxy.seen if seen.method == "POST"}
    assert len(keys) == 2


def test_a_restarted_agent_sends_the_writes_of_the_previous_one(
    open_client: Open, proxy: FaultyProxy, spool: Spool, playhead: Playhead, session_id: UUID
) -> None:
    down(proxy)
    first = open_client()
    first.append(session_id, [ModelInput(content="before")])
    first.close()
    assert spool.waiting() == 1
    up(proxy)
    second = open_client()
    second.append(session_id, [ModelInput(content="after")])
    assert second.flush(20) == 0
    assert contents(playhead, session_id) == ["before", "after"]


def test_an_entry_has_the_time_of_its_event_and_not_of_its_sending(
    open_client: Open, proxy: FaultyProxy, playhead: Playhead, session_id: UUID
) -> None:
    down(proxy)
    client = open_client()
    recorder = Recorder(client, session_id)
    recorder.say("go")
    recorder.after_parse(LOOK)
    recorder.after_execute("fine")
    client.append_step(session_id, analysis_result="a", execution_result="b", supervision_result="c")
    made = datetime.now(UTC)
    time.sleep(0.3)
    up(proxy)
    assert client.flush(20) == 0
    assert all(entry.created_at and entry.created_at <= made for entry in playhead.entries(session_id))
    assert playhead.session(session_id).steps == 2


def test_fields_of_a_spooled_write_raise_a_not_yet_known_error(
    open_client: Open, proxy: FaultyProxy, session_id: UUID
) -> None:
    down(proxy)
    client = open_client()
    appended = client.append(session_id, [ModelInput(content="go")])
    registered = client.register_action(session_id, LOOK)
    assert (appended.spooled, registered.spooled) == (True, True)
    with pytest.raises(NotYetKnown, match=r"`positions` is not known yet: .* waits in the spool"):
        appended.positions  # noqa: B018
    with pytest.raises(NotYetKnown, match="`number`"):
        registered.number  # noqa: B018
    assert getattr(appended, "head", None) is None


def test_the_error_of_a_read_says_that_reads_are_not_spooled(
    open_client: Open, proxy: FaultyProxy, session_id: UUID
) -> None:
    down(proxy)
    recorder = Recorder(open_client(), session_id)
    with pytest.raises(ServerUnavailable):
        recorder.context()
    recorder.say("go")
    for read in (recorder.context, recorder.fmt_list, recorder.rewind):
        with pytest.raises(ServerUnavailable, match=r"cannot be spooled\. 1 write waits in .*agent\.spool"):
            read()
    with pytest.raises(ServerUnavailable, match="cannot be spooled"):
        recorder.playhead.append(session_id, [ModelInput(content="x")], expected_position=0)


def test_a_read_sees_writes_that_were_spooled_before_it(
    open_client: Open, proxy: FaultyProxy, session_id: UUID
) -> None:
    down(proxy)
    recorder = Recorder(open_client(), session_id)
    recorder.after_parse(LOOK)
    recorder.after_execute("fine")
    up(proxy)
    assert recorder.fmt_list() == "1. Executed `ls()`: fine"


def test_a_refusal_is_raised_at_once_while_the_server_answers(open_client: Open, session_id: UUID) -> None:
    client = open_client()
    client.register_action(session_id, LOOK)
    with pytest.raises(Conflict, match="already set"):
        client.register_action(session_id, LOOK)


def test_a_spooled_write_that_is_refused_is_set_aside_with_the_result_that_belongs_to_it(
    open_client: Open,
    proxy: FaultyProxy,
    spool: Spool,
    playhead: Playhead,
    session_id: UUID,
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = playhead.create_session().id
    client = open_client()
    client.register_action(session_id, LOOK)
    down(proxy)
    client.register_action(session_id, ActionProposal(use_tool=UseTool(name="rm")))
    client.append(other, [ModelInput(content="elsewhere")])
    Recorder(client, session_id).after_execute("of rm, and not of ls")
    up(proxy)
    assert client.flush(20) == 0
    refused = spool.refused()
    assert [write.path.rpartition("/")[2] for write in refused] == ["actions", "results"]
    assert refused[0].body["use_tool"]["name"] == "rm"
    assert "already set" in refused[0].problem["detail"]
    assert "was refused" in caplog.text
    assert Recorder(playhead, session_id).fmt_list() == "1. Executed `ls()`."
    assert contents(playhead, other) == ["elsewhere"]


def test_a_write_that_is_always_too_long_is_set_aside(
    open_client: Open,
    proxy: FaultyProxy,
    spool: Spool,
    playhead: Playhead,
    session_id: UUID,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Later writes wait for the first one, and it was sent again for ever."""
    monkeypatch.setattr(retrying, "MAX_PAUSE", 0.01)
    down(proxy)
    client = open_client()
    client.append(session_id, [ModelInput(content="too long")])
    client.append(session_id, [ModelInput(content="go")])
    problem = {
        "type": "/docs/errors/#transaction-too-long",
        "status": 503,
        "detail": "Storing took too long.",
    }
    body = json.dumps({**problem, "code": "transaction-too-long"}).encode()
    too_long = responding(503, {"Content-Type": "application/problem+json"}, body)
    proxy.faults = [too_long] * (MAX_TOO_LONG - 1)
    assert client.flush(20) == 0
    assert spool.refused() == [], "the server was overloaded"
    assert contents(playhead, session_id) == ["too long", "go"]

    down(proxy)
    client.append(session_id, [ModelInput(content="longer")])
    client.append(session_id, [ModelInput(content="on")])
    proxy.faults = [too_long] * MAX_TOO_LONG
    assert client.flush(20) == 0
    (refused,) = spool.refused()
    assert refused.body["entries"][0]["content"] == "longer"
    assert refused.problem["detail"] == "Storing took too long."
    assert contents(playhead, session_id) == ["too long", "go", "on"]


@pytest.mark.parametrize(
    "fault",
    [
        responding(200, {"Content-Type": "text/html"}, b"<title>Sign in</title>"),
        responding(200, {"Content-Type": "application/json"}, b'{"message": "ok"}'),
        responding(404, {"Content-Type": "text/html"}, b"not here"),
        responding(401, {"Content-Type": "application/problem+json"}, b"{}"),
        responding(400, {"Content-Type": "application/problem+json"}, b"{}"),
    ],
)
def test_a_response_of_another_server_removes_no_write(
    open_client: Open, proxy: FaultyProxy, spool: Spool, playhead: Playhead, session_id: UUID, fault: Any
) -> None:
    down(proxy)
    client = open_client()
    client.append(session_id, [ModelInput(content="go")])
    proxy.faults = [fault] * 10_000
    assert client.flush(0.5) == 1
    assert spool.refused() == []
    up(proxy)
    assert client.flush(20) == 0
    assert contents(playhead, session_id) == ["go"]


def test_a_full_spool_refuses_the_write_and_loses_none(
    proxy: FaultyProxy, api_key: str, tmp_path: Path, playhead: Playhead, session_id: UUID
) -> None:
    spool = Spool(tmp_path / "small", max_bytes=65_536, patience=0.2)
    with Playhead(proxy.url, api_key, on_outage=spool) as client:
        down(proxy)
        taken: list[str] = []

        def record(text: str) -> None:
            client.append(session_id, [ModelInput(content=text)])
            taken.append(text)

        def fill() -> None:
            for number in range(100):
                record(f"{number} {'x' * 4000}")

        with pytest.raises(NotSpooled, match="is full"):
            fill()
        up(proxy)
        record("at last")
        assert client.flush(20) == 0
    assert contents(playhead, session_id) == taken


def test_two_clients_with_one_spool_send_everything_once(
    open_client: Open, proxy: FaultyProxy, playhead: Playhead, session_id: UUID
) -> None:
    down(proxy)
    first, second = open_client(), open_client()
    for number in range(10):
        (first, second)[number % 2].append(session_id, [ModelInput(content=number)])
    up(proxy)
    first.flush(20)
    second.flush(20)
    assert contents(playhead, session_id) == list(range(10))
