"""Playhead with a stream of a model in ``historyapp.front.native.NATIVE``, for ``bench/streams.py``."""

import asyncio
import os

from historyapp.asgi import application
from historyapp.front.bodies import Receive
from historyapp.front.environ import Scope
from historyapp.front.native import NATIVE, Send

__all__ = ["application"]


async def model(scope: Scope, receive: Receive, send: Send) -> None:
    """Passes on what the model sends, as it arrives, until the client closes the connection."""
    await _begin(send)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["BENCH_MODEL_PORT"]))
    disconnected = asyncio.ensure_future(_wait_for_disconnect(receive))
    while not disconnected.done() and (piece := await reader.read(65536)):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    writer.close()
    disconnected.cancel()
    await send({"type": "http.response.body", "body": b""})


async def _begin(send: Send) -> None:
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


NATIVE |= {"/bench/model": model}
