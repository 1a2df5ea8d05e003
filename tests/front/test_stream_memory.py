"""What an open stream of events keeps in memory."""

import asyncio
import sys
from typing import Any

from historyapp.event_streams import Subscription
from historyapp.front.application import Front
from historyapp.front.limits import client_of
from historyapp.models.changes import START
from tests.front.limits import small_limits
from tests.front.one_request import scope_of
from tests.front.test_streams import PROJECT, READER, Database, database

__all__ = ["database"]


def test_a_stream_that_waits_keeps_nothing_of_what_was_sent(database: Database) -> None:
    class Response(list[bytes]):
        subscription = Subscription(PROJECT, None, START, START, READER)

    def application(environ: dict[str, Any], start_response: Any) -> Response:
        start_response("200 OK", [])
        return Response([bytes(1000)])

    sent: list[bytes] = []
    scope = scope_of("GET", "/api/v1/events", (b"authorization", b"Bearer key"))

    async def send(message: dict[str, Any]) -> None:
        sent.extend(filter(None, [message.get("body")]))

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def scenario() -> list[int]:
        front = Front(application, small_limits(), 1)
        front.known_clients.add(client_of("/api/v1/events", b"Bearer key", "10.0.0.1"), PROJECT.bytes)
        stream = asyncio.create_task(front(scope, receive, send))
        async with asyncio.timeout(5):
            while not sent:
                await asyncio.sleep(0.01)
            database.add(count=3)
            while len(sent) < 2:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.02)
        kept = [sys.getrefcount(piece) for piece in (*sent[:2], b"".join([b"a", b"b"]))]
        stream.cancel()
        return kept

    first, second, alone = asyncio.run(scenario())
    assert first == second == alone + 1, "`sent` has them"
