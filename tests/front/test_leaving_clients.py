"""A client that leaves ends its model call, also before the response begins."""

import asyncio
import threading
from collections.abc import Generator
from typing import Any

from historyapp.front.application import Front
from historyapp.front.large_requests import RequestProcesses
from historyapp.front.outbox import ClientGone, Outbox
from historyapp.front.pool_names import CALLS
from historyapp.front.pools import Client
from historyapp.front.process_messages import Message
from tests.front.limits import small_limits
from tests.front.one_request import scope_of


class WaitingProcess(RequestProcesses):
    """A process whose provider is silent."""

    has_left = False

    def carry_out(self, environ: dict[str, Any], outbox: Outbox, waited: float) -> Generator[Message]:
        left = threading.Event()
        with outbox.when_abandoned(left.set):
            self.has_left = left.wait(5)
        yield from ()
        raise ClientGone


def test_a_client_that_leaves_before_the_response_begins_ends_its_call() -> None:
    process, sent = WaitingProcess(60), list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def request() -> None:
        front = Front(lambda environ, start: [], small_limits(), 1, {CALLS: process})
        front._holder = lambda *_: Client(b"key", b"project")  # type: ignore[method-assign]
        await front(scope_of("POST", "/api/v1/sessions/x/calls"), receive, send)

    asyncio.run(request())
    assert process.has_left
    assert sent == []
