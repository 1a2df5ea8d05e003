"""A request to a server's front, without a connection."""

import asyncio
from typing import Any

from historyapp.front.application import Front
from historyapp.front.environ import Scope


def scope_of(method: str, path: str, *headers: tuple[bytes, bytes], **changes: Any) -> Scope:
    """The ASGI scope of a request."""
    return {
        "type": "http", "method": method, "path": path, "query_string": b"", "headers": [*headers],
        "client": ("10.0.0.1", 1000), "server": ("127.0.0.1", 80), "scheme": "http", "http_version": "1.1",
        "root_path": "", **changes,
    }  # fmt: skip


async def get(front: Front, path: str = "/", *headers: tuple[bytes, bytes]) -> int:
    """Requests a path, and returns the status of the response."""
    return await request(front, "GET", path, *headers)


async def request(front: Front, method: str, path: str, *headers: tuple[bytes, bytes]) -> int:
    """As :func:`get`, with any method."""
    statuses: list[int] = []

    async def send(message: dict[str, Any]) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    await front(scope_of(method, path, *headers), receive, send)
    (status,) = statuses
    return status
