"""A running server, its worker on demand, and a target on this machine: all events, and kills of workers."""

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

import psutil
import pytest

from historyapp.client import ActionError, ActionProposal, ActionSuccess, ModelInput, Playhead, UseTool
from historyapp.models.webhooks import EVENTS
from historyapp.services.webhooks.signing import signature
from historyapp.wire.problems import CapReached
from tests.examples import thorough
from tests.forking import forked_playhead
from tests.installation import Installation, installation
from tests.services.webhooks.receiver import Arrived, Receiver, Reply

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.usefixtures("lighter")]

SECONDS = 90
SENT = ["session.started", "session.error", "session.ended"]


class Server(NamedTuple):
    """``playhead up``, which starts a worker when there is work, and a client of it."""

    ours: Installation
    loaded: psutil.Process
    """The children of this process run the commands ``up`` and ``worker``."""
    up: psutil.Process
    playhead: Playhead

    def workers(self) -> list[psutil.Process]:
        """The workers that ``up`` has started and that run."""
        running = []
        for child in self.loaded.children():
            with suppress(psutil.Error):
                if child != self.up and child.status() != psutil.STATUS_ZOMBIE:
                    running.append(child)
        return running

    def wait_for_workers(self, number: int) -> list[psutil.Process]:
        end = time.monotonic() + SECONDS
        while len(workers := self.workers()) != number:
            assert time.monotonic() < end, f"{len(workers)} workers run, not {number}"
            time.sleep(0.05)
        return workers


@pytest.fixture(scope="module")
def server(lighter: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"PLAYHEAD_WEBHOOK_PRIVATE_ADDRESSES": "127.0.0.1", "OPENAI_API_KEY": "sk-test"}
    quick = {"PLAYHEAD_CLAIM_SECONDS": "2", "PLAYHEAD_SWEEP_SECONDS": "1", "PLAYHEAD_IDLE_SECONDS": "2"}
    folder = tmp_path_factory.mktemp("running")
    with (
        installation(folder / "home", migrated=True, **settings, **quick) as ours,
        forked_playhead(folder / "bin", ours.environment) as pid,
    ):
        command = [str(folder / "bin" / "playhead"), "up", "--port", "0", "--no-demo"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        printed = "".join(iter(process.stdout.readline, "  Ctrl-C stops it.\n"))
        address, key = re.findall(r"ready at (\S+)|API key +(\S+)", printed)
        loaded = psutil.Process(pid)
        (up,) = loaded.children()
        with Playhead(address[0], key[1]) as playhead:
            yield Server(ours, loaded, up, playhead)
        process.terminate()
        process.communicate(timeout=120)


def wait_for(receiver: Receiver, types: set[str]) -> None:
    end = time.monotonic() + SECONDS
    while not types <= set(receiver.types()):
        assert time.monotonic() < end, f"only {receiver.types()} arrived"
        time.sleep(0.05)


def deliveries(playhead: Playhead, webhook: UUID) -> list[tuple[str, str]]:
    """Id and state of each, oldest first."""
    return [(one.id, one.state) for one in playhead.webhook_deliveries(webhook)][::-1]


def test_every_event_arrives_signed_and_in_the_order_of_its_session_and_an_idle_worker_ends(
    server: Server, receiver: Receiver
) -> None:
    playhead = server.playhead
    webhook = playhead.create_webhook(receiver.url)
    sent = playhead.send_test_event(webhook.id)
    wait_for(receiver, {"webhook.test"})
    assert [request.id for request in receiver.arrived] == [sent.id]
    session = playhead.create_session(title="Run", agent="fixer").id
    playhead.append(session, [ModelInput(content="Make the tests pass.")])
    for _ in range(5):
        playhead.register_action(session, ActionProposal(use_tool=UseTool(name="ls", arguments={})))
        playhead.register_result(session, ActionSuccess(outputs="a.py"))
    playhead.register_action(session, ActionProposal(use_tool=UseTool(name="make", arguments={})))
    playhead.register_result(session, ActionError(reason="No rule to make target"))
    playhead.set_caps({"daily_cap": 0})
    with pytest.raises(CapReached):
        list(playhead.call_model(session, model="openai:gpt-5-mini"))
    playhead.compress(session, strategy="simple_extract", from_step=1, to_step=3)
    wait_for(receiver, {"compression.finished"})
    playhead.change_session(session, status="finished")
    wait_for(receiver, set(EVENTS))
    arrived = receiver.arrived[1:]
    assert sorted(request.type for request in arrived) == sorted(EVENTS)
    assert (arrived[0].type, arrived[-1].type) == ("session.started", "session.ended")
    assert {request.session for request in arrived} == {str(session)}
    by_type = {request.type: request.data for request in arrived}
    assert by_type["session.loop"]["loop"]["rule"] == "same_call_same_result"
    assert by_type["session.error"]["failed_steps"][0]["error"] == "No rule to make target"
    assert by_type["budget.reached"]["cap"]["limit"] == 0
    assert by_type["compression.finished"]["compression"]["state"] == "succeeded"
    for request in arrived:
        message, moment = request.headers["webhook-id"], int(request.headers["webhook-timestamp"])
        signed = signature(webhook.secret, message, moment, request.text)
        assert request.headers["webhook-signature"] == signed
    succeeded = [(one.id, "succeeded") for one in receiver.arrived]
    end = time.monotonic() + SECONDS  # the worker stores a success after the receiver has answered
    while (listed := deliveries(playhead, webhook.id)) != succeeded and time.monotonic() < end:
        time.sleep(0.05)
    assert listed == succeeded
    server.wait_for_workers(0)
    playhead.delete_webhook(webhook.id)


@pytest.mark.parametrize("kills", [(20,), thorough((4, 20))])
def test_a_worker_that_is_killed_while_it_sends_loses_nothing_and_keeps_the_order(
    server: Server, receiver: Receiver, kills: tuple[int, ...]
) -> None:
    def slowly(request: Arrived) -> Reply:
        time.sleep(0.05)
        return Reply()

    receiver.answer = slowly
    playhead = server.playhead
    webhook = playhead.create_webhook(
        receiver.url, events=["session.started", "session.error", "session.ended"]
    )
    sessions = [str(playhead.create_session(title=str(number)).id) for number in range(15)]
    for session in sessions:
        playhead.register_action(session, ActionProposal(use_tool=UseTool(name="make", arguments={})))
        playhead.register_result(session, ActionError(reason="It failed."))
    for count in kills[:-1]:
        _kill_after(server, receiver, count)
    for session in sessions:
        playhead.change_session(session, status="finished")
    _kill_after(server, receiver, kills[-1])
    server.ours.wait(ALL_ENDED, SECONDS)
    first: dict[str, Arrived] = {}
    for request in receiver.arrived:
        assert first.setdefault(request.id, request).text == request.text
    for session in sessions:
        of_session = [request.type for request in first.values() if request.session == session]
        assert of_session == SENT
    sent = {one.id: one.state for one in playhead.webhook_deliveries(webhook.id)}
    assert sent == dict.fromkeys(first, "succeeded")
    assert len(receiver.arrived) - len(first) <= len(kills), "one for each kill"
    playhead.delete_webhook(webhook.id)


ALL_ENDED = (
    "SELECT 1 WHERE (SELECT COUNT(*) FROM historyapp_webhookdelivery "
    "WHERE state = 'succeeded' AND event = 'session.ended') = 15"
)


def _kill_after(server: Server, receiver: Receiver, count: int) -> None:
    """Kills the worker after a number of requests, while it waits for the response to the last one."""
    end = time.monotonic() + SECONDS
    while len(receiver.arrived) < count:
        assert time.monotonic() < end, f"{len(receiver.arrived)} requests arrived"
        time.sleep(0.01)
    (worker,) = server.wait_for_workers(1)
    worker.kill()
